//! How a claim is decided, and what the queue of a slot does.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anarchon::run::SlotOutcome;
use anarchon::{Backend as _, BackendErrorKind, ClaimBackend as _, RabbitMqBackend, Slot};
use lapin::options::{BasicConsumeOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, LongString};
use tests::backends::{answer, job};
use tests::servers::{RabbitMq, RabbitMqVersion};

use crate::{again, at, block_on, claim, connected, log, outcome, persistently, settled};

/// Short enough to be waited for.
const TTL: Duration = Duration::from_secs(2);

/// A slot that no clock will call old while a test lasts.
const LATER: i64 = -3_600_000;

/// A channel of somebody who is not a scheduler.
async fn stranger(server: &RabbitMq) -> (lapin::Connection, lapin::Channel) {
    let connection = lapin::Connection::connect(&server.url(), lapin::ConnectionProperties::default()).await;
    let connection = connection.expect("a connection");
    let channel = connection.create_channel().await.expect("a channel");
    (connection, channel)
}

#[test]
fn of_eight_that_race_for_a_slot_one_wins() {
    for version in RabbitMqVersion::ALL {
        let Some(server) = RabbitMq::shared(version) else { return };
        block_on(async {
            let prefix = RabbitMq::prefix();
            let mut stores = Vec::new();
            for _ in 0..8 {
                stores.push(Arc::new(connected(RabbitMqBackend::new(server.url()).prefix(&prefix)).await));
            }
            for round in 0..60 {
                let one = claim("race", 100 + round);
                let racers = stores.iter().map(|store| {
                    let (store, claim) = (Arc::clone(store), again(&one));
                    tokio::spawn(async move { persistently(&store, &claim).await })
                });
                let racers: Vec<_> = racers.collect();
                let mut won = 0;
                for racer in racers {
                    match racer.await.expect("a racer") {
                        SlotOutcome::Won => won += 1,
                        other => assert_eq!(other, SlotOutcome::Taken),
                    }
                }
                assert_eq!(won, 1, "{version:?} round {round}");
            }
        });
    }
}

#[test]
fn a_loser_that_asks_again_and_again_does_not_keep_the_slot_and_its_winner_does() {
    for version in RabbitMqVersion::ALL {
        let Some(server) = RabbitMq::shared(version) else { return };
        block_on(async {
            let store = connected(at(server).slot_ttl(TTL)).await;
            let won = claim("kept", LATER);
            let since = Instant::now();
            assert_eq!(persistently(&store, &won).await, SlotOutcome::Won);
            // The broker counts from the last declare that it took.
            while since.elapsed() < TTL * 2 {
                assert_eq!(persistently(&store, &won).await, SlotOutcome::Won);
                assert_eq!(persistently(&store, &again(&won)).await, SlotOutcome::Taken);
                tokio::time::sleep(TTL / 10).await;
            }
            let since = Instant::now();
            while persistently(&store, &again(&won)).await == SlotOutcome::Taken {
                assert!(since.elapsed() < TTL * 10, "{version:?}: the loser keeps the slot");
                tokio::time::sleep(TTL / 10).await;
            }
            assert!(since.elapsed() > TTL / 2, "{version:?}: gone after {:?}", since.elapsed());
        });
    }
}

#[test]
fn two_never_win_within_the_memory_however_they_ask_while_it_ends() {
    for version in RabbitMqVersion::ALL {
        let Some(server) = RabbitMq::shared(version) else { return };
        block_on(async {
            let ttl = Duration::from_secs(1);
            let store = Arc::new(connected(at(server).slot_ttl(ttl)).await);
            let one = claim("expires", LATER);
            let until = Instant::now() + ttl * 4;
            let racers = (0..8).map(|_| {
                let (store, one) = (Arc::clone(&store), one.clone());
                tokio::spawn(async move {
                    let mut wins = Vec::new();
                    while Instant::now() < until {
                        let sent = Instant::now();
                        if persistently(&store, &again(&one)).await == SlotOutcome::Won {
                            wins.push((sent, Instant::now()));
                        }
                    }
                    wins
                })
            });
            let racers: Vec<_> = racers.collect();
            let mut wins = Vec::new();
            for racer in racers {
                wins.extend(racer.await.expect("a racer"));
            }
            wins.sort();
            assert!(wins.len() >= 2, "{version:?}: {}", wins.len());
            for pair in wins.windows(2) {
                // The first was decided no later than it was answered, the second no sooner than it was sent.
                let between = pair[1].1.duration_since(pair[0].0);
                assert!(between >= ttl - Duration::from_millis(20), "{version:?}: {between:?}");
            }
        });
    }
}

#[test]
fn a_slot_older_than_the_memory_is_late_and_not_declared() {
    let Some(server) = RabbitMq::shared(RabbitMqVersion::V4) else { return };
    block_on(async {
        let store = connected(at(server).slot_ttl(TTL)).await;
        assert_eq!(store.memory(), Some(TTL));
        assert_eq!(persistently(&store, &claim("old", 2000)).await, SlotOutcome::Late);
        assert_eq!(persistently(&store, &claim("old", 1000)).await, SlotOutcome::Won);
    });
}

#[test]
fn a_queues_name_too_long_for_the_brokers_texts_is_decided_like_any_other() {
    for version in RabbitMqVersion::ALL {
        let Some(server) = RabbitMq::shared(version) else { return };
        block_on(async {
            let prefix = format!("{:a<96}", RabbitMq::prefix());
            let store = connected(RabbitMqBackend::new(server.url()).prefix(prefix)).await;
            for length in [1, 60, 90, 128] {
                let won = claim(&"n".repeat(length), 100);
                assert_eq!(persistently(&store, &won).await, SlotOutcome::Won);
                assert_eq!(persistently(&store, &again(&won)).await, SlotOutcome::Taken, "{length}");
                assert_eq!(persistently(&store, &won).await, SlotOutcome::Won);
            }
        });
    }
}

#[test]
fn instances_with_other_slot_ttls_let_one_win_and_are_told_both_values() {
    for version in RabbitMqVersion::ALL {
        let Some(server) = RabbitMq::shared(version) else { return };
        log::begin();
        block_on(async {
            let (prefix, url) = (RabbitMq::prefix(), server.url());
            let of = |seconds| RabbitMqBackend::new(&url).prefix(&prefix).slot_ttl(Duration::from_secs(seconds));
            let (one, other) = (connected(of(300)).await, connected(of(600)).await);
            for (ago, first, second) in [(100, &one, &other), (101, &other, &one)] {
                let won = claim("differ", ago);
                assert_eq!(persistently(first, &won).await, SlotOutcome::Won);
                assert_eq!(persistently(second, &again(&won)).await, SlotOutcome::Taken);
                assert_eq!(persistently(first, &won).await, SlotOutcome::Won);
            }
            let told = log::lines(&format!("{prefix}differ."));
            assert_eq!(told.len(), 2, "{told:?}");
            for line in told {
                assert!(line.starts_with("ERROR anarchon") && line.contains("slot_ttl"), "{line}");
                assert!(line.contains("'300000'") && line.contains("'600000'"), "{line}");
            }
        });
    }
}

#[test]
fn a_lost_claim_is_no_line_in_the_log() {
    for version in RabbitMqVersion::ALL {
        let Some(server) = RabbitMq::shared(version) else { return };
        log::begin();
        block_on(async {
            let prefix = RabbitMq::prefix();
            let store = connected(RabbitMqBackend::new(server.url()).prefix(&prefix)).await;
            for ago in 100..120 {
                let won = claim("quiet", ago);
                assert_eq!(persistently(&store, &won).await, SlotOutcome::Won);
                assert_eq!(persistently(&store, &again(&won)).await, SlotOutcome::Taken);
            }
            assert_eq!(log::lines(&prefix), [""; 0]);
        });
    }
}

#[test]
fn queues_of_others_by_that_name_are_not_ours() {
    for version in RabbitMqVersion::ALL {
        let Some(server) = RabbitMq::shared(version) else { return };
        block_on(async {
            let prefix = RabbitMq::prefix();
            let store = connected(RabbitMqBackend::new(server.url()).prefix(&prefix)).await;
            let (_connection, channel) = stranger(server).await;
            let queue = |slot: Slot| format!("{prefix}other.{}", slot.ms());
            let of_type = |kind: &str| {
                let mut arguments = FieldTable::default();
                arguments.insert("x-queue-type".into(), AMQPValue::LongString(LongString::from(kind)));
                arguments
            };
            let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
            // One that is durable, and one of another type: somebody has taken the slot.
            for (ago, kind) in [(100, "classic"), (101, "quorum")] {
                let mine = claim("other", ago);
                let declared = channel.queue_declare(queue(mine.slot).as_str().into(), durable, of_type(kind)).await;
                declared.expect("a queue");
                assert_eq!(persistently(&store, &mine).await, SlotOutcome::Taken, "{kind}");
            }
            // One that belongs to a connection: it will go by itself, and the slot is taken by nobody.
            let mine = claim("other", 102);
            let exclusive = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
            let declared =
                channel.queue_declare(queue(mine.slot).as_str().into(), exclusive, FieldTable::default()).await;
            declared.expect("a queue");
            let error = outcome(&store, &mine).await.expect_err("it is locked");
            assert_eq!(error.kind(), BackendErrorKind::Config, "{error}");
            assert!(error.to_string().contains("`prefix`"), "{error}");
        });
    }
}

#[test]
fn a_consumer_of_a_slots_queue_frees_nothing() {
    let Some(server) = RabbitMq::shared(RabbitMqVersion::V4) else { return };
    block_on(async {
        let prefix = RabbitMq::prefix();
        let store = connected(RabbitMqBackend::new(server.url()).prefix(&prefix)).await;
        let won = claim("consumed", 100);
        assert_eq!(persistently(&store, &won).await, SlotOutcome::Won);
        let (_connection, channel) = stranger(server).await;
        let queue = format!("{prefix}consumed.{}", won.slot.ms());
        let options = BasicConsumeOptions::default();
        let consumer = channel.basic_consume(queue.as_str().into(), "".into(), options, FieldTable::default()).await;
        consumer.expect("a consumer");
        assert_eq!(persistently(&store, &again(&won)).await, SlotOutcome::Taken);
        assert_eq!(persistently(&store, &won).await, SlotOutcome::Won);
    });
}

#[test]
fn many_claims_of_one_call_are_decided_each_by_itself() {
    for version in RabbitMqVersion::ALL {
        let Some(server) = RabbitMq::shared(version) else { return };
        block_on(async {
            let prefix = RabbitMq::prefix();
            let of = || connected(RabbitMqBackend::new(server.url()).prefix(&prefix));
            let (one, other) = (of().await, of().await);
            let claims: Vec<_> = (0..100).map(|n| claim(&format!("job-{n}"), 100)).collect();
            let others: Vec<_> = claims.iter().map(again).collect();
            let (mine, theirs) = tokio::join!(one.claim_many(&claims), other.claim_many(&others));
            for (at, (mine, theirs)) in mine.into_iter().zip(theirs).enumerate() {
                let outcomes = [settled(&one, &claims[at], mine).await, settled(&other, &others[at], theirs).await];
                let expected = HashSet::from([SlotOutcome::Won, SlotOutcome::Taken].map(|o| format!("{o:?}")));
                assert_eq!(HashSet::from(outcomes.map(|o| format!("{o:?}"))), expected, "{}", claims[at].job);
            }
        });
    }
}

#[test]
fn services_with_other_prefixes_share_nothing() {
    let Some(server) = RabbitMq::shared(RabbitMqVersion::V4) else { return };
    block_on(async {
        let (one, other) = (connected(at(server)).await, connected(at(server)).await);
        let won = claim("shared", 100);
        for store in [&one, &other] {
            assert_eq!(persistently(store, &again(&won)).await, SlotOutcome::Won);
            assert_eq!(answer(async || store.history(&job("shared"), 10).await).await.len(), 1);
        }
    });
}

/// What AMQP cannot see, and the documentation warns of.
#[test]
fn a_policy_that_expires_queues_sooner_makes_the_broker_forget_sooner_and_other_policies_do_not() {
    for version in RabbitMqVersion::ALL {
        let Some(server) = RabbitMq::shared(version) else { return };
        let [harmless_prefix, harmful_prefix] = [RabbitMq::prefix(), RabbitMq::prefix()];
        let begins_with = |prefix: &str| format!("^{}", prefix.replace('.', "[.]"));
        let harmless = r#"{"max-length":0,"overflow":"reject-publish","dead-letter-exchange":"x","dead-letter-routing-key":"y","message-ttl":1}"#;
        for (prefix, policy) in [(&harmless_prefix, harmless), (&harmful_prefix, r#"{"expires":1000}"#)] {
            server.ctl(&["set_policy", prefix, &begins_with(prefix), policy, "--apply-to", "queues"]);
        }
        block_on(async {
            let of = |prefix| connected(RabbitMqBackend::new(server.url()).prefix(prefix));
            let (store, forgetful) = (of(&harmless_prefix).await, of(&harmful_prefix).await);
            let won = claim("policy", 100);
            for store in [&store, &forgetful] {
                assert_eq!(persistently(store, &won).await, SlotOutcome::Won);
            }
            assert_eq!(persistently(&store, &again(&won)).await, SlotOutcome::Taken);
            // Long before the five minutes that the queue was declared with.
            crate::until("the broker has forgotten the slot", async || {
                persistently(&forgetful, &again(&won)).await == SlotOutcome::Won
            })
            .await;
            assert_eq!(persistently(&store, &again(&won)).await, SlotOutcome::Taken);
            assert_eq!(persistently(&store, &won).await, SlotOutcome::Won);
        });
    }
}
