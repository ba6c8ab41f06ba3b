//! What goes wrong between a client and its server, and with the server's scripts and memory.

use std::collections::HashSet;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use anarchon::backend::Backend as _;

use anarchon::run::{ClaimOutcome, Ending, FinishOutcome, Status};
use anarchon::{BackendError, BackendErrorKind, Overlap, RedisBackend, Slot};
use redis::cmd;
use tests::servers::{Redis, RedisVersion};
use tests::{LONG, Proxy, Server as _};

use crate::{BOTH, again, beat, block_on, claim, connected, fence, finish, outcome, with};

/// Longer than an answer takes that comes, also on a busy machine, and short enough to wait for one that does not.
const DEADLINE: Duration = Duration::from_millis(700);

/// Calls again until there is an answer, each time for no longer than the deadline that every call of a scheduler has: of a
/// request that was handed over in the moment in which the connection ended, nobody may hear again.
async fn persistently<T, F: Future<Output = Result<T, BackendError>>>(call: impl Fn() -> F) -> T {
    let since = Instant::now();
    loop {
        let error = match tokio::time::timeout(DEADLINE, call()).await {
            Ok(Ok(answer)) => return answer,
            Ok(Err(error)) => {
                assert_eq!(error.kind(), BackendErrorKind::Unknown, "{error}");
                error.to_string()
            }
            Err(_) => "silence".to_owned(),
        };
        assert!(since.elapsed() < LONG, "no answer in {LONG:?}: {error}");
    }
}

/// Three instances claim 100 slots while `trouble` is made again and again, after every few answers, since some calls must
/// get through: each slot is won by one of them.
fn each_slot_is_won_once_despite(version: RedisVersion, server: &Redis, trouble: &redis::Cmd) {
    const SLOTS: usize = 100;
    let (answered, answers) = channel();
    std::thread::scope(|scope| {
        let troubled = scope.spawn(move || {
            let mut connection = server.connection();
            let mut times = 0_u64;
            loop {
                trouble.query::<redis::Value>(&mut connection).expect("an answer");
                times += 1;
                for _ in 0..3 {
                    if answers.recv().is_err() {
                        return times;
                    }
                }
            }
        });
        let won = block_on(async {
            let base = claim(&connected(&server.url()).await, "troubled", 0).await;
            // A run of which nobody has heard yet would have others skipped.
            let base = with(&base, |claim| claim.overlap = Overlap::Allow);
            let mut instances = tokio::task::JoinSet::new();
            for _ in 0..3 {
                let (url, base, answered) = (server.url(), base.clone(), answered.clone());
                instances.spawn(async move {
                    let store = RedisBackend::new(url);
                    let mut won = Vec::new();
                    for n in (1..).take(SLOTS) {
                        let slot = Slot::from_ms(base.slot.ms() - n * 1000);
                        let claim = with(&again(&base), |claim| claim.slot = slot);
                        let outcome = persistently(|| outcome(&store, &claim)).await;
                        answered.send(()).expect("somebody listens");
                        if let ClaimOutcome::Won { attempt, .. } = outcome {
                            assert_eq!(attempt, 1);
                            won.push(slot);
                            // Again and again, until it is recorded.
                            let end =
                                anarchon::run::Finish::new(claim.key(), claim.token, Ending::Done, crate::here(), 0);
                            persistently(|| store.finish(&end)).await;
                        }
                    }
                    won
                });
            }
            drop(answered);
            instances.join_all().await
        });
        let times = troubled.join().expect("no panic");
        let all: Vec<Slot> = won.concat();
        let different: HashSet<&Slot> = all.iter().collect();
        assert_eq!((all.len(), different.len()), (SLOTS, SLOTS), "each once, on {version:?}");
        assert!(times > 10, "there were only {times} troubles on {version:?}");
    });
}

#[test]
fn scripts_that_are_flushed_again_and_again_are_sent_again_and_no_slot_is_won_twice() {
    for version in BOTH {
        let Some(server) = Redis::own(version) else { return };
        each_slot_is_won_once_despite(version, &server, cmd("SCRIPT").arg("FLUSH"));
        let errors: String = server.ask(cmd("INFO").arg("errorstats"));
        assert!(errors.contains("errorstat_NOSCRIPT"), "the server had forgotten scripts: {errors}");
    }
}

#[test]
fn connections_that_are_killed_again_and_again_are_made_again_and_no_slot_is_won_twice() {
    for version in BOTH {
        let Some(server) = Redis::own(version) else { return };
        let kill = cmd("CLIENT").arg("KILL").arg("TYPE").arg("normal").arg("SKIPME").arg("yes").clone();
        each_slot_is_won_once_despite(version, &server, &kill);
    }
}

#[test]
fn a_claim_whose_reply_was_lost_wins_again_with_its_token_and_nobody_else_does() {
    for version in BOTH {
        let Some(server) = Redis::own(version) else { return };
        let proxy = Proxy::before(server.address());
        block_on(async {
            let store = connected(&server.url_through(proxy.address())).await;
            let claim = claim(&store, "a", 1000).await;
            proxy.swallow_reply(1);
            let lost = tokio::time::timeout(DEADLINE, outcome(&store, &claim)).await;
            assert!(lost.is_err(), "the reply was swallowed, and there is {lost:?}");
            let other = outcome(&store, &again(&claim)).await.expect("a new connection is made");
            assert!(matches!(other, ClaimOutcome::Running { .. }), "it had been decided: {other:?}");
            let won = fence(&store, &claim).await;
            assert_eq!(fence(&store, &claim).await, won);
            assert_eq!(proxy.accepted(), 2);
            assert!(matches!(finish(&store, &claim, Ending::Done).await, FinishOutcome::Recorded { .. }));
        });
    }
}

#[test]
fn a_claim_whose_connection_breaks_before_or_after_it_was_decided_is_sent_again_at_once() {
    for version in BOTH {
        let Some(server) = Redis::own(version) else { return };
        let proxy = Proxy::before(server.address());
        block_on(async {
            let store = connected(&server.url_through(proxy.address())).await;
            for (ago, cut) in [(2000, Proxy::cut_before as fn(&Proxy, u64)), (1000, Proxy::cut_after)] {
                let claim = claim(&store, &format!("job-{ago}"), ago).await;
                cut(&proxy, 1);
                let won = fence(&store, &claim).await;
                assert_eq!(fence(&store, &claim).await, won, "one attempt");
                assert_eq!(store.history(&claim.job, 10).await.expect("an answer").len(), 1);
            }
        });
    }
}

#[test]
fn a_claim_whose_reply_comes_after_its_deadline_wins_again_with_its_token() {
    for version in BOTH {
        let Some(server) = Redis::own(version) else { return };
        let proxy = Proxy::before(server.address());
        block_on(async {
            let store = connected(&server.url_through(proxy.address())).await;
            let claim = claim(&store, "a", 1000).await;
            proxy.delay(LONG);
            let late = tokio::time::timeout(DEADLINE, outcome(&store, &claim)).await;
            assert!(late.is_err(), "the reply is delayed, and there is {late:?}");
            proxy.delay(Duration::ZERO);
            let other = outcome(&store, &again(&claim)).await.expect("an answer");
            assert!(matches!(other, ClaimOutcome::Running { .. }), "it had been decided: {other:?}");
            fence(&store, &claim).await;
        });
    }
}

#[test]
fn a_slow_answer_is_waited_for_as_long_as_its_caller_likes() {
    let Some(server) = Redis::own(RedisVersion::Redis8) else { return };
    let proxy = Proxy::before(server.address());
    block_on(async {
        let store = connected(&server.url_through(proxy.address())).await;
        let claim = claim(&store, "a", 1000).await;
        // The client's own limit would be half a second.
        proxy.delay(Duration::from_millis(900));
        fence(&store, &claim).await;
        assert_eq!(proxy.accepted(), 1, "on the connection there was");
    });
}

#[test]
fn a_server_frozen_for_longer_than_a_lease_costs_the_lease_and_nothing_is_revived() {
    for version in BOTH {
        let Some(mut server) = Redis::own(version) else { return };
        block_on(async {
            let store = connected(&server.url()).await;
            let lease = Duration::from_millis(300);
            let claim = with(&claim(&store, "a", 1000).await, |claim| claim.lease = lease);
            fence(&store, &claim).await;
            server.freeze();
            let silence = tokio::time::timeout(DEADLINE, store.clock()).await;
            assert!(silence.is_err(), "a frozen server says nothing");
            server.thaw();
            assert_eq!(beat(&store, &claim).await, anarchon::run::BeatOutcome::Lost);
            let next = again(&claim);
            match outcome(&store, &next).await.expect("an answer") {
                ClaimOutcome::Won { attempt, .. } => assert_eq!(attempt, 2),
                other => panic!("it can be taken over, but {other:?}"),
            }
            assert_eq!(finish(&store, &claim, Ending::Done).await, FinishOutcome::Lost);
        });
    }
}

#[test]
fn a_server_without_memory_left_is_busy_and_decides_nothing() {
    for version in BOTH {
        let Some(server) = Redis::own(version) else { return };
        block_on(async {
            let store = connected(&server.url()).await;
            let claim = claim(&store, "a", 1000).await;
            let set = |to: &str| server.ask::<()>(cmd("CONFIG").arg("SET").arg("maxmemory").arg(to));
            set("1mb");
            let error = outcome(&store, &claim).await.expect_err("there is no room");
            assert_eq!(error.kind(), BackendErrorKind::Busy, "{error}");
            assert!(error.to_string().contains("out of memory"), "{error}");
            set("0");
            assert_eq!(store.history(&claim.job, 10).await.expect("an answer"), [], "nothing was decided");
            fence(&store, &claim).await;
        });
    }
}

#[test]
fn a_server_that_has_become_a_replica_is_busy_until_it_takes_writes_again() {
    for version in BOTH {
        let (Some(primary), Some(server)) = (Redis::own(version), Redis::own(version)) else { return };
        block_on(async {
            let store = connected(&server.url()).await;
            let claim = claim(&store, "a", 1000).await;
            let address = primary.address();
            server.ask::<()>(cmd("REPLICAOF").arg(address.ip().to_string()).arg(address.port()));
            let error = outcome(&store, &claim).await.expect_err("a replica takes no writes");
            assert_eq!(error.kind(), BackendErrorKind::Busy, "{error}");
            server.ask::<()>(cmd("REPLICAOF").arg("NO").arg("ONE"));
            fence(&store, &claim).await;
            finish(&store, &claim, Ending::Done).await;
            let done = outcome(&store, &again(&claim)).await.expect("an answer");
            assert_eq!(done, ClaimOutcome::Done { status: Status::Done });
        });
    }
}
