//! What is in the server: its keys, their format, and for how long they stay.

use std::collections::HashSet;
use std::time::Duration;

use anarchon::backend::Backend as _;
use anarchon::option::Retention;
use anarchon::run::{Ending, Pause, Record, Registration, Trim};
use anarchon::{BackendErrorKind, InstanceId, JobName, LeaseBackend as _, RedisBackend, Slot};
use redis::{Commands as _, cmd};
use tests::servers::{Redis, RedisVersion};

use crate::{BOTH, again, block_on, claim, connected, fence, finish, here, job, outcome, with};

#[test]
fn data_of_a_newer_release_is_refused_and_left_alone() {
    for version in BOTH {
        let Some(server) = Redis::own(version) else { return };
        block_on(async {
            let store = connected(&server.url()).await;
            let (old, next) = (claim(&store, "a", 2000).await, claim(&store, "a", 1000).await);
            fence(&store, &old).await;
            finish(&store, &old, Ending::Done).await;
            let mut connection = server.connection();
            let format: String = connection.hget("cron:{a}", "v").expect("a format");
            assert_eq!(format, "1");
            // The next release writes what this one can read.
            connection.hset::<_, _, _, ()>("cron:{a}", "v", 2).expect("an answer");
            fence(&store, &next).await;
            finish(&store, &next, Ending::Done).await;
            connection.hset::<_, _, _, ()>("cron:{a}", "v", 3).expect("an answer");
            let before: Vec<u8> = cmd("DUMP").arg("cron:{a}").query(&mut connection).expect("an answer");
            let newer = claim(&store, "a", 0).await;
            let errors = [
                outcome(&store, &newer).await.expect_err("newer"),
                store.history(&newer.job, 1).await.expect_err("newer"),
                store.active(&[]).await.expect_err("newer"),
                store.set_paused(&newer.job, None).await.expect_err("newer"),
                store.trim(&[Trim::new(newer.job.clone(), newer.retention, Duration::ZERO)]).await.expect_err("newer"),
            ];
            for error in errors {
                assert_eq!(error.kind(), BackendErrorKind::Config, "{error}");
                assert!(error.to_string().contains("newer release"), "{error}");
            }
            let after: Vec<u8> = cmd("DUMP").arg("cron:{a}").query(&mut connection).expect("an answer");
            assert_eq!(before, after);
        });
    }
}

#[test]
fn a_key_of_somebody_elses_is_told_and_left_alone() {
    let Some(server) = Redis::own(RedisVersion::Redis7) else { return };
    block_on(async {
        let store = connected(&server.url()).await;
        server.ask::<()>(cmd("SET").arg("cron:{a}").arg("theirs"));
        let error = outcome(&store, &claim(&store, "a", 1000).await).await.expect_err("it is no hash");
        assert_eq!(error.kind(), BackendErrorKind::Config, "{error}");
        assert_eq!(server.ask::<String>(cmd("GET").arg("cron:{a}")), "theirs");
    });
}

#[test]
fn services_with_prefixes_of_their_own_do_not_see_each_other() {
    let Some(server) = Redis::own(RedisVersion::Redis8) else { return };
    block_on(async {
        let (a, b) = (RedisBackend::new(server.url()).prefix("a:"), RedisBackend::new(server.url()).prefix("b:"));
        let claim = claim(&a, "same", 1000).await;
        fence(&a, &claim).await;
        fence(&b, &again(&claim)).await;
        assert_eq!(a.active(&[]).await.expect("an answer").value.len(), 1);
        let keys: HashSet<String> = server.ask(cmd("KEYS").arg("*"));
        assert!(keys.iter().all(|key| key.starts_with("a:") || key.starts_with("b:")), "{keys:?}");
        for wrong in ["", "a{b}", "a\n"] {
            let error = RedisBackend::new(server.url()).prefix(wrong).connect().await.expect_err("a wrong prefix");
            assert_eq!(error.kind(), BackendErrorKind::Config, "{error}");
            assert!(error.to_string().contains("`prefix`"), "{error}");
        }
    });
}

#[test]
fn what_is_left_of_a_job_that_nobody_registers_expires_and_a_pause_does_not() {
    for version in BOTH {
        let Some(server) = Redis::own(version) else { return };
        block_on(async {
            const MONTH: Duration = Duration::from_secs(30 * 86_400);
            let store = connected(&server.url()).await;
            let registration = Registration::new(job("a"), "every 1s", "every 1s", here());
            store.register(&[registration], MONTH).await.expect("an answer");
            let done = claim(&store, "a", 0).await;
            fence(&store, &done).await;
            finish(&store, &done, Ending::Done).await;
            store.set_paused(&job("a"), Some(&Pause::new("me", ""))).await.expect("an answer");
            // Another slot, of another millisecond.
            passed(&store).await;
            let skipped = claim(&store, "a", 0).await;
            outcome(&store, &skipped).await.expect("an answer");
            let expiry = |key: &str| server.ask::<i64>(cmd("TTL").arg(key));
            let keys = ["cron:{a}", "cron:{a}:h", "cron:{a}:s"];
            assert_eq!(keys.map(expiry), [-1, -1, -1], "a pause is never forgotten");
            store.set_paused(&job("a"), None).await.expect("an answer");
            let month = i64::try_from(MONTH.as_secs()).expect("a number");
            assert!(
                keys.map(expiry).iter().all(|ttl| *ttl > month && *ttl <= month + 86_400),
                "{:?}",
                keys.map(expiry)
            );
            // Those that were made since the job was registered get theirs when it is trimmed.
            server.ask::<()>(cmd("PERSIST").arg("cron:{a}:h"));
            let trim = Trim::new(job("a"), Retention::default(), Duration::from_secs(3600));
            store.trim(&[trim]).await.expect("an answer");
            assert!(expiry("cron:{a}:h") > month);
            server.ask::<()>(cmd("EXPIRE").arg("cron:{a}").arg(1000));
            store.trim(&[Trim::new(job("a"), Retention::default(), Duration::ZERO)]).await.expect("an answer");
            assert!(keys.map(expiry).iter().all(|ttl| (1..=1000).contains(ttl)), "nothing outlives the hash");
        });
    }
}

/// Waits until what has been written is older than now.
async fn passed(store: &RedisBackend) {
    let since = crate::now(store).await;
    while crate::now(store).await <= since + 1 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn a_run_whose_record_is_gone_keeps_no_other_from_being_trimmed() {
    for version in BOTH {
        let Some(server) = Redis::own(version) else { return };
        block_on(async {
            let store = connected(&server.url()).await;
            let done = claim(&store, "a", 1000).await;
            fence(&store, &done).await;
            finish(&store, &done, Ending::Done).await;
            server.ask::<()>(cmd("ZADD").arg("cron:{a}:h").arg(1000).arg("1000 1"));
            passed(&store).await;
            store.trim(&[Trim::new(job("a"), Retention::new(0, None), Duration::ZERO)]).await.expect("an answer");
            assert_eq!(server.ask::<u64>(cmd("ZCARD").arg("cron:{a}:h")), 0);
            assert_eq!(store.history(&job("a"), 10).await.expect("an answer"), []);
        });
    }
}

#[test]
fn a_job_that_cannot_be_trimmed_is_told_and_jobs_of_later_calls_are_trimmed() {
    let Some(server) = Redis::own(RedisVersion::Redis7) else { return };
    block_on(async {
        let store = connected(&server.url()).await;
        let done = claim(&store, "last", 1000).await;
        fence(&store, &done).await;
        finish(&store, &done, Ending::Done).await;
        server.ask::<()>(cmd("SET").arg("cron:{theirs}").arg("untouched"));
        passed(&store).await;
        let names = ["theirs", "b", "c", "d", "e", "f", "g", "h", "last"];
        let trims = names.map(|name| Trim::new(job(name), Retention::new(0, None), Duration::ZERO));
        let error = store.trim(&trims).await.expect_err("it is no hash");
        assert_eq!(error.kind(), BackendErrorKind::Config, "{error}");
        assert_eq!(server.ask::<u64>(cmd("ZCARD").arg("cron:{last}:h")), 0);
    });
}

#[test]
fn thousands_of_runs_that_are_over_at_once_are_closed_in_one_call() {
    const RUNS: usize = 5000;
    let open = "local open = {} \
                for at = 1, tonumber(ARGV[1]) do \
                  local token = string.format('%032x', at) \
                  open[at] = { 'm' .. token, '1000', token, 'running', 1, 0, 0, false, 1, false, 0, true, \
                    'manual', 'here', 1, 1, 1 } \
                end \
                return redis.call('HSET', KEYS[1], 'v', '1', 'open', cmsgpack.pack(open, 1, 0))";
    for version in BOTH {
        let Some(server) = Redis::own(version) else { return };
        block_on(async {
            let store = connected(&server.url()).await;
            server.ask::<()>(cmd("EVAL").arg(open).arg(1).arg("cron:{a}").arg(RUNS));
            assert_eq!(store.active(&[job("a")]).await.expect("an answer").value, []);
            assert_eq!(server.ask::<usize>(cmd("ZCARD").arg("cron:{a}:h")), RUNS);
            assert_eq!(store.history(&job("a"), 3).await.expect("an answer").len(), 3);
        });
    }
}

#[test]
fn memory_is_bounded_by_the_size_of_history_however_many_slots_there_were() {
    for version in BOTH {
        let Some(server) = Redis::own(version) else { return };
        block_on(async {
            let store = connected(&server.url()).await;
            let base = claim(&store, "a", 0).await;
            let mut fields = Vec::new();
            for round in 0..4 {
                for n in 0..300 {
                    let slot = Slot::from_ms(base.slot.ms() - 2_000_000 + (round * 300 + n) * 1000);
                    let claim = with(&again(&base), |claim| claim.slot = slot);
                    fence(&store, &claim).await;
                    finish(&store, &claim, Ending::Failed("x".repeat(100))).await;
                }
                while crate::now(&store).await <= base.slot.ms() + 5 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
                store.trim(&[Trim::new(job("a"), Retention::new(10, None), Duration::ZERO)]).await.expect("an answer");
                fields.push(server.ask::<u64>(cmd("HLEN").arg("cron:{a}")));
                assert_eq!(server.ask::<u64>(cmd("ZCARD").arg("cron:{a}:h")), 10);
            }
            assert!(fields.iter().all(|n| *n == fields[0] && *n < 30), "{fields:?}");
        });
    }
}

/// A small seeded generator.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % bound
    }

    /// A text made of what means something to the protocol, to Lua, to keys and to packed data.
    fn text(&mut self, controls: bool) -> String {
        const PARTS: &[&str] = &[
            "{",
            "}",
            "%",
            "%7D",
            "'",
            "\"",
            "\\",
            "]]",
            "--",
            "[[",
            "$3",
            "*1",
            ":h",
            ":s",
            "r:",
            "f:",
            "m",
            "return 1",
            "; redis.call('FLUSHALL')",
            "KEYS[1]",
            " ",
            "0",
            "-1",
            "1e9",
            "nil",
            "false",
            "ü",
            "🦀",
            "\u{202e}",
            "é",
        ];
        const CONTROLS: &[&str] = &["\r\n", "\0", "\r\n$-1\r\n", "\x1b", "\t"];
        let mut text = String::from("x");
        for _ in 0..self.below(7) {
            let parts = if controls && self.below(4) == 0 { CONTROLS } else { PARTS };
            text.push_str(parts[self.below(parts.len())]);
        }
        text.push('x');
        text
    }
}

#[test]
fn no_text_is_taken_for_anything_but_itself() {
    for version in BOTH {
        let Some(server) = Redis::own(version) else { return };
        block_on(async {
            let store = connected(&server.url()).await;
            server.ask::<()>(cmd("SET").arg("theirs").arg("untouched"));
            let mut random = Random(1);
            let mut names = HashSet::new();
            for _ in 0..150 {
                let name = random.text(false);
                let instance = InstanceId::new(random.text(false)).expect("an instance id");
                let (identity, error, note) = (random.text(true), random.text(true), random.text(true));
                let Ok(job) = JobName::new(&*name) else { continue };
                if !names.insert(job.clone()) {
                    continue;
                }
                let base = claim(&store, "base", 1000).await;
                let claim = with(&again(&base), |claim| {
                    claim.job = job.clone();
                    claim.identity = identity.as_str().into();
                    claim.instance = instance.clone();
                });
                fence(&store, &claim).await;
                store.set_paused(&job, Some(&Pause::new(&*name, &*note))).await.expect("an answer");
                let pause = store.paused(&job).await.expect("an answer").expect("a pause");
                assert_eq!((pause.by, pause.note), (name.clone(), note));
                finish(&store, &claim, Ending::Failed(error.clone())).await;
                let other = Registration::new(job.clone(), "other", "other", here());
                let registration = Registration::new(job.clone(), identity.clone(), identity.clone(), instance.clone());
                let month = Duration::from_secs(30 * 86_400);
                store.register(&[registration], month).await.expect("an answer");
                let others = store.register(&[other], month).await.expect("an answer").value.remove(0).others;
                assert_eq!(others, [(instance.to_string(), identity)]);
                let records = store.history(&job, 10).await.expect("an answer");
                let [Record::Attempt(attempt)] = &records[..] else { panic!("{records:?}") };
                assert_eq!((attempt.error.as_deref(), attempt.instance.as_str()), (Some(&*error), instance.as_str()));
                assert_eq!(attempt.run.job, job);
            }
            let keys: HashSet<String> = server.ask(cmd("KEYS").arg("*"));
            assert_eq!(server.ask::<String>(cmd("GET").arg("theirs")), "untouched");
            let jobs = keys.iter().filter(|key| key.ends_with('}')).count();
            assert_eq!(jobs, names.len(), "a job is one hash");
            assert!(keys.iter().all(|key| key == "theirs" || key.starts_with("cron:")), "{keys:?}");
            assert_eq!(server.ask::<usize>(cmd("ZCARD").arg("cron:jobs")), names.len());
        });
    }
}
