//! The strategies without leases, where their ways to decide have traps.

use std::time::Duration;

use anarchon::backend::redis::{Idmp, Script, StreamId};
use anarchon::backend::{Backend, JobLimits};
use anarchon::option::Retention;
use anarchon::run::{Registration, SlotClaim, SlotOutcome, Trim};
use anarchon::{
    AnyClaimBackend, BackendErrorKind, ClaimBackend, Error, InstanceId, RedisBackend, Scheduler, Slot, Token,
    ValkeyBackend,
};
use redis::cmd;
use tests::servers::{Redis, RedisVersion};
use tests::{Proxy, Server as _};

use crate::{BOTH, block_on, here, job};

const MONTH: Duration = Duration::from_secs(30 * 86_400);

async fn now(store: &impl Backend) -> i64 {
    store.clock().await.expect("an answer").expect("a clock")
}

fn claim(slot: i64) -> SlotClaim {
    let mut claim = SlotClaim::new(job("a"), Slot::from_ms(slot), Token::random(), here());
    claim.limit = Duration::from_secs(3600);
    claim
}

async fn outcome(store: &impl ClaimBackend, claim: &SlotClaim) -> SlotOutcome {
    store.claim(claim).await.expect("an answer").value
}

/// Drops all that may be dropped.
async fn trim(store: &impl Backend) {
    store.trim(&[Trim::new(job("a"), Retention::new(0, None), Duration::ZERO)]).await.expect("an answer");
}

fn registration(instance: &str) -> Registration {
    Registration::new(job("a"), "every 1s", "every 1s", InstanceId::new(instance).expect("an instance id"))
}

#[test]
fn by_stream_ids_a_far_slot_is_early_and_blocks_no_nearer_one() {
    for version in BOTH {
        let Some(server) = Redis::own(version) else { return };
        block_on(async {
            let store = RedisBackend::new(server.url()).strategy(StreamId);
            let now = now(&store).await;
            assert!(matches!(outcome(&store, &claim(now + 86_400_000)).await, SlotOutcome::Early(_)));
            assert_eq!(outcome(&store, &claim(now - 1000)).await, SlotOutcome::Won);
        });
    }
}

#[test]
fn by_stream_ids_a_slot_older_than_the_last_is_late_and_so_is_one_that_was_dropped_also_after_a_restart() {
    for version in BOTH {
        let Some(mut server) = Redis::own_durable(version) else { return };
        block_on(async {
            let store = RedisBackend::new(server.url()).strategy(StreamId);
            let start = now(&store).await;
            assert_eq!(outcome(&store, &claim(start - 5000)).await, SlotOutcome::Won);
            assert_eq!(outcome(&store, &claim(start - 6000)).await, SlotOutcome::Late);
            while now(&store).await <= start + 2 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            trim(&store).await;
            assert_eq!(store.history(&job("a"), 10).await.expect("an answer"), []);
            assert_eq!(server.ask::<u64>(cmd("XLEN").arg("cron:{a}:ids")), 0);
            assert_eq!(server.ask::<i64>(cmd("TTL").arg("cron:{a}:ids")), -1, "the last id never expires");
            for restarted in [false, true] {
                if restarted {
                    server.kill();
                    server.start();
                }
                assert_eq!(outcome(&store, &claim(start - 5000)).await, SlotOutcome::Late, "restarted: {restarted}");
            }
            assert_eq!(outcome(&store, &claim(start - 4000)).await, SlotOutcome::Won);
        });
    }
}

#[test]
fn by_idmp_another_duration_than_the_stored_one_is_refused_with_both_and_forgets_nothing() {
    let Some(server) = Redis::own(RedisVersion::Redis8) else { return };
    block_on(async {
        let store = |seconds| RedisBackend::new(server.url()).strategy(Idmp::new(Duration::from_secs(seconds)));
        let (first, other, same) = (store(600), store(900), store(600));
        for store in [&first, &same] {
            store.connect().await.expect("an answer");
            store.register(&[registration("one")], MONTH).await.expect("an answer");
        }
        let slot = now(&first).await - 1000;
        assert_eq!(outcome(&first, &claim(slot)).await, SlotOutcome::Won);
        other.connect().await.expect("an answer");
        let error = other.register(&[registration("other")], MONTH).await.expect_err("another duration");
        assert_eq!(error.kind(), BackendErrorKind::Config, "{error}");
        assert!(error.to_string().contains("600 s") && error.to_string().contains("900 s"), "{error}");
        assert_eq!(outcome(&same, &claim(slot)).await, SlotOutcome::Taken);
        same.register(&[registration("again")], MONTH).await.expect("an answer");
        assert_eq!(outcome(&same, &claim(slot)).await, SlotOutcome::Taken, "registering again changes nothing");
    });
}

#[test]
fn by_idmp_an_entry_that_was_dropped_while_it_is_remembered_is_not_won_twice() {
    let Some(server) = Redis::own(RedisVersion::Redis8) else { return };
    block_on(async {
        let store = RedisBackend::new(server.url()).strategy(Idmp::default());
        let won = claim(now(&store).await - 1000);
        assert_eq!(outcome(&store, &won).await, SlotOutcome::Won);
        assert_eq!(outcome(&store, &won).await, SlotOutcome::Won);
        trim(&store).await;
        assert_eq!(outcome(&store, &won).await, SlotOutcome::Won, "a trim drops nothing that is remembered");
        assert_eq!(server.ask::<u64>(cmd("XTRIM").arg("cron:{a}:im").arg("MAXLEN").arg(0)), 1);
        assert_eq!(outcome(&store, &claim(won.slot.ms())).await, SlotOutcome::Taken);
    });
}

#[test]
fn by_idmp_newer_slots_push_no_older_one_out_however_few_ids_a_producer_may_have() {
    let Some(server) = Redis::own(RedisVersion::Redis8) else { return };
    block_on(async {
        let store = RedisBackend::new(server.url()).strategy(Idmp::default());
        store.register(&[registration("one")], MONTH).await.expect("an answer");
        server.ask::<()>(cmd("XCFGSET").arg("cron:{a}:im").arg("IDMP-MAXSIZE").arg(1));
        let now = now(&store).await;
        for ago in [3000, 2000, 1000] {
            assert_eq!(outcome(&store, &claim(now - ago)).await, SlotOutcome::Won);
        }
        for ago in [3000, 2000, 1000] {
            // What the script knows by itself is gone, so the server's memory decides.
            server.ask::<()>(cmd("HDEL").arg("cron:{a}:c").arg(format!("e{}", now - ago)));
            assert_eq!(outcome(&store, &claim(now - ago)).await, SlotOutcome::Taken, "{ago}");
        }
    });
}

#[test]
fn by_idmp_a_claim_past_the_limit_wins_again_with_its_token_and_nobody_else_does() {
    let Some(server) = Redis::own(RedisVersion::Redis8) else { return };
    block_on(async {
        let store = RedisBackend::new(server.url()).strategy(Idmp::default());
        let mut won = claim(now(&store).await - 1000);
        assert_eq!(outcome(&store, &won).await, SlotOutcome::Won);
        won.limit = Duration::from_millis(1);
        assert_eq!(outcome(&store, &won).await, SlotOutcome::Won);
        won.token = Token::random();
        assert_eq!(outcome(&store, &won).await, SlotOutcome::Taken);
        won.slot = Slot::from_ms(won.slot.ms() - 1);
        assert_eq!(outcome(&store, &won).await, SlotOutcome::Late);
    });
}

#[test]
fn by_stream_ids_a_server_that_has_become_a_replica_is_busy_and_decides_nothing() {
    for version in BOTH {
        let (Some(primary), Some(server)) = (Redis::own(version), Redis::own(version)) else { return };
        block_on(async {
            let store = RedisBackend::new(server.url()).strategy(StreamId);
            let claim = claim(now(&store).await - 1000);
            let address = primary.address();
            server.ask::<()>(cmd("REPLICAOF").arg(address.ip().to_string()).arg(address.port()));
            let error = store.claim(&claim).await.expect_err("a replica takes no writes");
            assert_eq!(error.kind(), BackendErrorKind::Busy, "{error}");
            server.ask::<()>(cmd("REPLICAOF").arg("NO").arg("ONE"));
            assert_eq!(outcome(&store, &claim).await, SlotOutcome::Won);
        });
    }
}

#[test]
fn a_claim_that_wins_again_writes_again_so_that_its_replicas_are_waited_for() {
    for version in BOTH {
        let Some(server) = Redis::own(version) else { return };
        let at = || RedisBackend::new(server.url());
        let mut stores = vec![
            AnyClaimBackend::new(at().prefix("one:").strategy(StreamId)),
            AnyClaimBackend::new(at().prefix("two:").strategy(Script::default())),
        ];
        if version == RedisVersion::Redis8 {
            stores.push(AnyClaimBackend::new(at().prefix("three:").strategy(Idmp::default())));
        }
        let writes = || {
            let info: String = server.ask(cmd("INFO").arg("persistence"));
            let changes = info.lines().find_map(|line| line.strip_prefix("rdb_changes_since_last_save:"));
            changes.and_then(|changes| changes.trim().parse::<u64>().ok()).expect("a number")
        };
        server.ask::<()>(cmd("CONFIG").arg("SET").arg("save").arg(""));
        block_on(async {
            for store in stores {
                let won = claim(now(&store).await - 1000);
                assert_eq!(outcome(&store, &won).await, SlotOutcome::Won, "{}", store.name());
                let before = writes();
                assert_eq!(outcome(&store, &won).await, SlotOutcome::Won, "{}", store.name());
                assert!(writes() > before, "{}", store.name());
            }
        });
    }
}

#[test]
fn by_idmp_a_server_that_is_killed_remembers_what_it_wrote_to_its_file() {
    let Some(mut server) = Redis::own_durable(RedisVersion::Redis8) else { return };
    block_on(async {
        let store = RedisBackend::new(server.url()).strategy(Idmp::default());
        let won = claim(now(&store).await - 1000);
        assert_eq!(outcome(&store, &won).await, SlotOutcome::Won);
        server.kill();
        server.start();
        assert_eq!(outcome(&store, &claim(won.slot.ms())).await, SlotOutcome::Taken);
        assert_eq!(outcome(&store, &won).await, SlotOutcome::Won);
    });
}

#[test]
fn by_idmp_a_server_too_old_is_refused_by_name_and_version_and_so_is_a_duration_out_of_bounds() {
    for (version, name) in [(RedisVersion::Redis7, "Redis 7.0"), (RedisVersion::Valkey9, "Valkey 9")] {
        let Some(server) = Redis::shared(version) else { return };
        block_on(async {
            let error = RedisBackend::new(server.url()).strategy(Idmp::default()).connect().await.expect_err("too old");
            assert_eq!(error.kind(), BackendErrorKind::Config, "{error}");
            assert!(error.to_string().contains(name) && error.to_string().contains("8.6"), "{error}");
        });
    }
    block_on(async {
        for wrong in [Duration::ZERO, Duration::from_millis(3500), Duration::from_secs(86_401)] {
            let store = RedisBackend::default().strategy(Idmp::new(wrong));
            let error = store.connect().await.expect_err("out of bounds");
            assert!(error.to_string().contains("86,400"), "{error}");
        }
    });
}

#[test]
fn by_script_history_by_age_must_outlast_the_window() {
    let store = RedisBackend::default().strategy(Script::new(Duration::from_secs(600)));
    let limits = |ttl| JobLimits::new(job("a"), Duration::ZERO, Duration::ZERO, Some(Duration::from_secs(ttl)));
    for (ttl, taken) in [(60, false), (600, false), (601, true)] {
        let blamed = store.check_job(&limits(ttl)).err().map(|refusal| refusal.option);
        assert_eq!(blamed, (!taken).then_some("history_ttl"), "{ttl} s");
    }
    assert_eq!(store.memory(), Some(Duration::from_secs(600)));
}

#[test]
fn by_script_a_job_whose_history_does_not_outlast_the_window_is_refused_when_it_is_added() {
    let Some(server) = Redis::shared(RedisVersion::Redis8) else { return };
    block_on(async {
        let store = RedisBackend::new(server.database()).strategy(Script::new(Duration::from_secs(600)));
        let scheduler = Scheduler::builder(store).start().await.expect("a scheduler");
        let add = |ttl: &'static str| scheduler.every("a", "1h", async || ()).history_ttl(ttl).add();
        let refused = add("10m").await.expect_err("it does not outlast the window");
        assert!(matches!(refused, Error::JobOption { option: "history_ttl", .. }), "{refused:?}");
        for part in ["`a`", file!(), "`history_ttl` is 10m", "`redis:script`"] {
            assert!(refused.to_string().contains(part), "{part} is not in: {refused}");
        }
        add("601s").await.expect("it does");
        scheduler.stop().await.expect("it stops");
    });
}

#[test]
fn a_claim_whose_reply_was_lost_wins_again_by_every_strategy_in_one_round_trip() {
    for version in BOTH {
        let Some(server) = Redis::own(version) else { return };
        let proxy = Proxy::before(server.address());
        let at = || RedisBackend::new(server.url_through(proxy.address()));
        let mut stores = vec![
            AnyClaimBackend::new(at().prefix("one:").strategy(StreamId)),
            AnyClaimBackend::new(at().prefix("two:").strategy(Script::default())),
        ];
        if version == RedisVersion::Redis8 {
            stores.push(AnyClaimBackend::new(at().prefix("three:").strategy(Idmp::default())));
        }
        block_on(async {
            for store in stores {
                store.connect().await.expect("an answer");
                let won = claim(now(&store).await - 1000);
                proxy.cut_after(1);
                let before = proxy.round_trips();
                assert_eq!(outcome(&store, &won).await, SlotOutcome::Won, "{}", store.name());
                assert!(proxy.round_trips() > before);
                let before = proxy.round_trips();
                assert_eq!(outcome(&store, &claim(won.slot.ms())).await, SlotOutcome::Taken, "{}", store.name());
                assert_eq!(proxy.round_trips() - before, 1, "{}", store.name());
                let records = store.history(&won.job, 10).await.expect("an answer");
                assert_eq!(records.len(), 1, "one run");
            }
        });
    }
}

#[test]
fn a_strategy_is_in_the_backends_name() {
    let names = [
        RedisBackend::default().name().to_owned(),
        RedisBackend::default().strategy(StreamId).name().to_owned(),
        RedisBackend::default().strategy(Script::default()).name().to_owned(),
        RedisBackend::default().strategy(Idmp::default()).name().to_owned(),
        ValkeyBackend::default().name().to_owned(),
        ValkeyBackend::default().strategy(StreamId).name().to_owned(),
        ValkeyBackend::default().strategy(Script::default()).name().to_owned(),
    ];
    let expected = ["redis:lease", "redis:stream-id", "redis:script", "redis:idmp", "valkey:lease", "valkey:stream-id"];
    assert_eq!(names[..6], expected);
    assert_eq!(names[6], "valkey:script");
}
