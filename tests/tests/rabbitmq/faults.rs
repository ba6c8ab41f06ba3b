//! What goes wrong between a client and its broker, and with the broker.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anarchon::run::{Ending, Finish, RunKey, SlotOutcome};
use anarchon::{Backend as _, BackendErrorKind, ClaimBackend as _, RabbitMqBackend};
use tests::backends::{instance, job};
use tests::servers::{RabbitMq, RabbitMqVersion};
use tests::{LONG, Proxy, Server as _};

use crate::{again, at, block_on, claim, connected, outcome, persistently, until};

/// Sooner than the scheduler gives a call up, though a broker may never answer.
const DEADLINE: Duration = Duration::from_millis(4500);

#[test]
fn a_claim_whose_reply_was_lost_wins_again_with_its_token_and_nobody_else_does() {
    for version in RabbitMqVersion::ALL {
        let Some(server) = RabbitMq::shared(version) else { return };
        let proxy = Proxy::before(server.address());
        block_on(async {
            let prefix = RabbitMq::prefix();
            let url = server.url_through(proxy.address());
            let store = connected(RabbitMqBackend::new(url).prefix(&prefix)).await;
            let other = connected(RabbitMqBackend::new(server.url()).prefix(&prefix)).await;
            // So that a claim is one request.
            assert_eq!(outcome(&store, &claim("warm", 100)).await.expect("an answer"), SlotOutcome::Won);
            for round in 0..20 {
                let won = claim("cut", 100 + round);
                let before = proxy.accepted();
                proxy.cut_after(1);
                assert_eq!(persistently(&store, &won).await, SlotOutcome::Won, "{version:?} round {round}");
                assert!(proxy.accepted() > before, "the connection was cut");
                assert_eq!(outcome(&other, &again(&won)).await.expect("an answer"), SlotOutcome::Taken);
                assert_eq!(outcome(&other, &won).await.expect("an answer"), SlotOutcome::Won);
            }
            assert_eq!(other.history(&job("cut"), 100).await.expect("an answer").len(), 20);
        });
    }
}

#[test]
fn a_claim_that_did_not_reach_the_broker_is_won_by_whoever_comes_first() {
    let Some(server) = RabbitMq::shared(RabbitMqVersion::V4) else { return };
    let proxy = Proxy::before(server.address());
    block_on(async {
        let store =
            connected(RabbitMqBackend::new(server.url_through(proxy.address())).prefix(RabbitMq::prefix())).await;
        assert_eq!(outcome(&store, &claim("warm", 100)).await.expect("an answer"), SlotOutcome::Won);
        for round in 0..10 {
            proxy.cut_before(1);
            let won = claim("cut", 100 + round);
            assert_eq!(persistently(&store, &won).await, SlotOutcome::Won);
            assert_eq!(outcome(&store, &again(&won)).await.expect("an answer"), SlotOutcome::Taken);
        }
    });
}

#[test]
fn a_reply_that_never_comes_is_waited_for_no_longer_than_a_moment() {
    let Some(server) = RabbitMq::shared(RabbitMqVersion::V4) else { return };
    let proxy = Proxy::before(server.address());
    block_on(async {
        let store =
            connected(RabbitMqBackend::new(server.url_through(proxy.address())).prefix(RabbitMq::prefix())).await;
        assert_eq!(outcome(&store, &claim("warm", 100)).await.expect("an answer"), SlotOutcome::Won);
        let won = claim("silent", 100);
        proxy.swallow_reply(1);
        let since = Instant::now();
        let error = outcome(&store, &won).await.expect_err("the reply was swallowed");
        assert_eq!(error.kind(), BackendErrorKind::Unknown, "{error}");
        assert!(since.elapsed() < DEADLINE, "{:?}", since.elapsed());
        assert_eq!(persistently(&store, &won).await, SlotOutcome::Won, "the broker had decided");
        assert_eq!(outcome(&store, &again(&won)).await.expect("an answer"), SlotOutcome::Taken);
    });
}

#[test]
fn a_claim_that_is_dropped_anywhere_leaves_nothing_broken() {
    let Some(server) = RabbitMq::shared(RabbitMqVersion::V4) else { return };
    block_on(async {
        let store = connected(at(server)).await;
        for n in 0..200 {
            let dropped = claim("dropped", 100 + n);
            let _ = tokio::time::timeout(
                Duration::from_micros(u64::try_from(n * 20).expect("small")),
                store.claim(&dropped),
            )
            .await;
            assert_eq!(persistently(&store, &dropped).await, SlotOutcome::Won);
            assert_eq!(persistently(&store, &again(&dropped)).await, SlotOutcome::Taken);
        }
    });
}

#[test]
fn channels_do_not_run_out_however_many_claims_are_lost() {
    for version in RabbitMqVersion::ALL {
        let Some(server) = RabbitMq::shared(version) else { return };
        let proxy = Proxy::before(server.address());
        block_on(async {
            let prefix = RabbitMq::prefix();
            let store = RabbitMqBackend::new(server.url_through(proxy.address())).prefix(&prefix);
            let store = connected(store).await;
            let other = connected(RabbitMqBackend::new(server.url()).prefix(&prefix)).await;
            let claims: Vec<_> = (0..100).map(|n| claim(&format!("job-{n}"), 100)).collect();
            for won in other.claim_many(&claims).await {
                assert_eq!(won.expect("an answer").value, SlotOutcome::Won);
            }
            // The client has 2047 channels.
            for _ in 0..24 {
                let claims: Vec<_> = claims.iter().map(again).collect();
                for lost in store.claim_many(&claims).await {
                    assert_eq!(lost.expect("an answer").value, SlotOutcome::Taken);
                }
            }
            assert_eq!(outcome(&store, &claims[0]).await.expect("an answer"), SlotOutcome::Won);
            assert_eq!(proxy.accepted(), 4, "two at first, and two that were replaced by others");
            until("connections that are used up have been closed", async || proxy.connections() == 2).await;
        });
    }
}

#[test]
fn a_broker_that_allows_few_channels_is_used_with_few() {
    let Some(server) = RabbitMq::shared(RabbitMqVersion::V4) else { return };
    block_on(async {
        let prefix = RabbitMq::prefix();
        let of = |channels| RabbitMqBackend::new(format!("{}?channel_max={channels}", server.url())).prefix(&prefix);
        let store = connected(of(8)).await;
        let claims: Vec<_> = (0..100).map(|n| claim(&format!("job-{n}"), 100)).collect();
        let again: Vec<_> = claims.iter().map(again).collect();
        for (claims, expected) in [(&claims, SlotOutcome::Won), (&again, SlotOutcome::Taken)] {
            for answer in store.claim_many(claims).await {
                assert_eq!(answer.expect("an answer").value, expected);
            }
        }
        let error = of(3).connect().await.expect_err("too few");
        assert_eq!(error.kind(), BackendErrorKind::Config, "{error}");
    });
}

#[test]
fn a_broker_that_is_killed_remembers_every_slot_it_had_answered() {
    for version in RabbitMqVersion::ALL {
        let Some(mut server) = RabbitMq::own(version) else { return };
        block_on(async {
            let store = connected(at(&server)).await;
            let mut won = Vec::new();
            for round in 0..2 {
                let claims: Vec<_> = (0..30).map(|n| claim(&format!("job-{round}-{n}"), 100)).collect();
                for answer in store.claim_many(&claims).await {
                    assert_eq!(answer.expect("an answer").value, SlotOutcome::Won);
                }
                server.kill();
                won.extend(claims);
                let since = Instant::now();
                let error = outcome(&store, &won[0]).await.expect_err("there is no broker");
                assert_eq!(error.kind(), BackendErrorKind::Unknown, "{error}");
                assert!(since.elapsed() < DEADLINE);
                server.start();
                for claim in &won {
                    assert_eq!(persistently(&store, &again(claim)).await, SlotOutcome::Taken, "{version:?}");
                    assert_eq!(persistently(&store, claim).await, SlotOutcome::Won, "{version:?}");
                }
                let history = tests::backends::answer(async || store.history(&won[0].job, 10).await).await;
                assert_eq!(history.len(), 1, "and so is its history");
            }
        });
    }
}

#[test]
fn slots_are_won_once_while_the_broker_is_killed_and_started_again() {
    for version in RabbitMqVersion::ALL {
        let Some(mut server) = RabbitMq::own(version) else { return };
        let (url, prefix) = (server.url(), RabbitMq::prefix());
        let over = Arc::new(std::sync::atomic::AtomicBool::new(false));
        std::thread::scope(|scope| {
            let claimants = scope.spawn({
                let over = Arc::clone(&over);
                move || {
                    block_on(async {
                        let stores = (0..3).map(|_| RabbitMqBackend::new(&url).prefix(&prefix)).collect::<Vec<_>>();
                        let mut slots = 0;
                        while !over.load(std::sync::atomic::Ordering::Relaxed) || slots < 200 {
                            let one = claim("killed", 0);
                            let claims = [one.clone(), again(&one), again(&one)];
                            let asked = stores.iter().zip(&claims).map(|(store, claim)| persistently(store, claim));
                            let outcomes = futures_util::future::join_all(asked).await;
                            let won = outcomes.iter().filter(|outcome| **outcome == SlotOutcome::Won).count();
                            assert_eq!(won, 1, "{version:?}: {outcomes:?}");
                            slots += 1;
                        }
                        slots
                    })
                }
            });
            for _ in 0..2 {
                server.kill();
                server.start();
            }
            over.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(claimants.join().expect("no panic") >= 200);
        });
    }
}

#[test]
fn a_broker_that_hangs_is_given_up_in_time_and_found_again() {
    for version in RabbitMqVersion::ALL {
        let Some(mut server) = RabbitMq::own(version) else { return };
        block_on(async {
            let store = connected(at(&server)).await;
            let claims: Vec<_> = (0..100).map(|n| claim(&format!("job-{n}"), 100)).collect();
            server.freeze();
            for _ in 0..2 {
                let since = Instant::now();
                for answer in store.claim_many(&claims).await {
                    let kind = answer.expect_err("the broker hangs").kind();
                    assert!(matches!(kind, BackendErrorKind::Unknown | BackendErrorKind::Busy), "{kind:?}");
                }
                assert!(since.elapsed() < DEADLINE, "{version:?}: {:?}", since.elapsed());
            }
            server.thaw();
            until("all are won, by the tokens that were sent before", async || {
                let answers = store.claim_many(&claims).await;
                answers.into_iter().all(|answer| answer.is_ok_and(|won| won.value == SlotOutcome::Won))
            })
            .await;
        });
    }
}

#[test]
fn connections_do_not_pile_up_before_a_broker_that_is_slow() {
    let Some(server) = RabbitMq::shared(RabbitMqVersion::V4) else { return };
    let proxy = Proxy::before(server.address());
    block_on(async {
        let url = server.url_through(proxy.address());
        let store = connected(RabbitMqBackend::new(url).prefix(RabbitMq::prefix())).await;
        let (won, before) = (claim("slow", 100), proxy.accepted());
        proxy.partition();
        let since = Instant::now();
        while since.elapsed() < Duration::from_secs(15) {
            outcome(&store, &won).await.expect_err("nothing is passed");
        }
        assert_eq!(proxy.accepted() - before, 1, "the old one was left, and one attempt is enough for all");
        proxy.heal();
        assert_eq!(persistently(&store, &won).await, SlotOutcome::Won);
    });
}

#[test]
fn claims_go_on_while_the_broker_takes_no_messages_and_their_ends_are_recorded_later() {
    for version in RabbitMqVersion::ALL {
        let Some(server) = RabbitMq::own(version) else { return };
        block_on(async {
            let store = connected(at(&server)).await;
            let first = claim("blocked", 100);
            assert_eq!(outcome(&store, &first).await.expect("an answer"), SlotOutcome::Won);
            server.ctl(&["set_vm_memory_high_watermark", "absolute", "1"]);
            let finish = |claim: &anarchon::run::SlotClaim| {
                let run = RunKey::scheduled(claim.job.clone(), claim.slot);
                Finish::new(run, claim.token, Ending::Done, instance("here"), claim.slot.ms())
            };
            // The first message is taken, and the connection blocked upon it.
            until("no messages are taken", async || match store.finish(&finish(&first)).await {
                Ok(_) => false,
                Err(error) => {
                    assert!(matches!(error.kind(), BackendErrorKind::Unknown | BackendErrorKind::Busy), "{error}");
                    true
                }
            })
            .await;
            let last = claim("blocked", 50);
            assert_eq!(outcome(&store, &last).await.expect("an answer"), SlotOutcome::Won);
            for ago in 101..110 {
                let won = claim("blocked", ago);
                let since = Instant::now();
                assert_eq!(outcome(&store, &won).await.expect("an answer"), SlotOutcome::Won);
                assert_eq!(outcome(&store, &again(&won)).await.expect("an answer"), SlotOutcome::Taken);
                assert!(since.elapsed() < DEADLINE);
            }
            server.ctl(&["set_vm_memory_high_watermark", "absolute", "1GB"]);
            let since = Instant::now();
            while let Err(error) = store.finish(&finish(&last)).await {
                assert!(since.elapsed() < LONG, "{error}");
            }
            let record = store.history(&job("blocked"), 100).await.expect("an answer");
            let attempt = record.iter().find_map(|r| r.attempt().filter(|a| a.token == last.token)).expect("a record");
            assert!(attempt.status.is_some());
        });
    }
}

#[test]
fn a_broker_that_has_as_many_queues_as_it_may_is_busy() {
    for version in RabbitMqVersion::ALL {
        let Some(server) = RabbitMq::shared(version) else { return };
        server.ctl(&["add_vhost", "small"]);
        server.ctl(&["set_permissions", "-p", "small", "guest", ".*", ".*", ".*"]);
        block_on(async {
            let store = connected(RabbitMqBackend::new(format!("{}/small", server.url()))).await;
            let first = claim("full", 100);
            assert_eq!(outcome(&store, &first).await.expect("an answer"), SlotOutcome::Won);
            server.ctl(&["set_vhost_limits", "-p", "small", r#"{"max-queues":2}"#]);
            let second = claim("full", 101);
            let error = outcome(&store, &second).await.expect_err("there are two queues");
            assert_eq!(error.kind(), BackendErrorKind::Busy, "{error}");
            assert_eq!(outcome(&store, &again(&first)).await.expect("an answer"), SlotOutcome::Taken);
            server.ctl(&["clear_vhost_limits", "-p", "small"]);
            assert_eq!(persistently(&store, &second).await, SlotOutcome::Won);
        });
    }
}
