//! History, which is kept in queues that nobody consumes.

use std::sync::Arc;
use std::time::Duration;

use anarchon::option::Retention;
use anarchon::run::{Ending, Finish, Registration, RunKey, SlotClaim, SlotOutcome, Trim};
use anarchon::{AttemptStatus, Backend as _, BackendErrorKind, ClaimBackend as _, RabbitMqBackend, Record};
use lapin::options::QueueDeleteOptions;
use tests::Server as _;
use tests::backends::{answer, instance, job};
use tests::servers::{RabbitMq, RabbitMqVersion};

use crate::{again, at, block_on, claim, connected, persistently, settled};

fn finish(claim: &SlotClaim) -> Finish {
    let run = RunKey::scheduled(claim.job.clone(), claim.slot);
    Finish::new(run, claim.token, Ending::Done, instance("here"), claim.slot.ms() + 1)
}

/// Runs a job so many times, in one call each.
async fn run(store: &RabbitMqBackend, name: &str, times: i64) {
    let claims: Vec<_> = (0..times).map(|n| claim(name, 10_000 - n)).collect();
    for (claim, won) in claims.iter().zip(store.claim_many(&claims).await) {
        assert_eq!(settled(store, claim, won).await, SlotOutcome::Won);
    }
    let finishes: Vec<_> = claims.iter().map(finish).collect();
    finish_all(store, &finishes).await;
}

/// Says them all in one call, and again those to which no answer came.
async fn finish_all(store: &RabbitMqBackend, ends: &[Finish]) {
    for (end, ended) in ends.iter().zip(store.finish_many(ends).await) {
        if ended.is_err() {
            answer(async || store.finish(end).await).await;
        }
    }
}

/// A history, however many others read it. The future of an async closure cannot be sent to another thread.
async fn read(store: &RabbitMqBackend, name: &str) -> Vec<Record> {
    let since = std::time::Instant::now();
    loop {
        match store.history(&job(name), 1000).await {
            Ok(records) => return records,
            Err(error) => assert!(error.kind() == BackendErrorKind::Busy && since.elapsed() < tests::LONG, "{error}"),
        }
    }
}

#[test]
fn reading_takes_nothing_away_however_many_read_at_once() {
    for version in RabbitMqVersion::ALL {
        let Some(server) = RabbitMq::shared(version) else { return };
        block_on(async {
            let prefix = RabbitMq::prefix();
            let store = connected(RabbitMqBackend::new(server.url()).prefix(&prefix)).await;
            run(&store, "read", 50).await;
            let expected = answer(async || store.history(&job("read"), 1000).await).await;
            assert_eq!(expected.len(), 50);
            let readers = (0..6).map(|_| {
                let (url, prefix, expected) = (server.url(), prefix.clone(), expected.clone());
                tokio::spawn(async move {
                    let store = RabbitMqBackend::new(url).prefix(prefix);
                    for _ in 0..10 {
                        let read = read(&store, "read").await;
                        assert_eq!(read, expected);
                    }
                })
            });
            let readers: Vec<_> = readers.collect();
            for reader in readers {
                reader.await.expect("a reader");
            }
        });
    }
}

#[test]
fn what_is_written_while_somebody_reads_is_not_lost() {
    for version in RabbitMqVersion::ALL {
        let Some(server) = RabbitMq::shared(version) else { return };
        block_on(async {
            let store = Arc::new(connected(at(server)).await);
            let reader = {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    for _ in 0..30 {
                        read(&store, "busy").await;
                    }
                })
            };
            run(&store, "busy", 100).await;
            reader.await.expect("a reader");
            let read = answer(async || store.history(&job("busy"), 1000).await).await;
            let done = read.iter().filter(|r| r.attempt().is_some_and(|a| a.status == Some(AttemptStatus::Done)));
            assert_eq!((read.len(), done.count()), (100, 100));
        });
    }
}

#[test]
fn a_trim_keeps_at_least_what_the_size_says_and_not_much_more() {
    for version in RabbitMqVersion::ALL {
        let Some(server) = RabbitMq::shared(version) else { return };
        block_on(async {
            let store = connected(at(server)).await;
            let mut claims = Vec::new();
            for n in 0..60 {
                let won = claim("trim", 10_000 - n);
                assert_eq!(persistently(&store, &won).await, SlotOutcome::Won);
                store.finish(&finish(&won)).await.expect("an answer");
                claims.push(won);
            }
            let trim = Trim::new(job("trim"), Retention::new(20, None), Duration::ZERO);
            store.trim(std::slice::from_ref(&trim)).await.expect("a trim");
            let kept = answer(async || store.history(&job("trim"), 1000).await).await;
            assert!((20..=40).contains(&kept.len()), "{}", kept.len());
            let newest: Vec<_> = claims.iter().rev().take(20).map(|claim| claim.slot).collect();
            assert_eq!(kept.iter().take(20).map(Record::slot).collect::<Vec<_>>(), newest);
            store.trim(&[trim, Trim::new(job("nobody"), Retention::default(), Duration::ZERO)]).await.expect("a trim");
            assert_eq!(answer(async || store.history(&job("trim"), 1000).await).await, kept);
        });
    }
}

#[test]
fn a_history_that_somebody_deleted_begins_anew_and_costs_no_claim() {
    for version in RabbitMqVersion::ALL {
        let Some(server) = RabbitMq::shared(version) else { return };
        block_on(async {
            let prefix = RabbitMq::prefix();
            let store = connected(RabbitMqBackend::new(server.url()).prefix(&prefix)).await;
            run(&store, "deleted", 3).await;
            let connection = lapin::Connection::connect(&server.url(), lapin::ConnectionProperties::default()).await;
            let channel = connection.expect("a connection").create_channel().await.expect("a channel");
            let queue = format!("{prefix}deleted.history");
            channel.queue_delete(queue.as_str().into(), QueueDeleteOptions::default()).await.expect("a queue");
            assert_eq!(answer(async || store.history(&job("deleted"), 10).await).await, []);
            let later = claim("deleted", 5);
            assert_eq!(persistently(&store, &later).await, SlotOutcome::Won);
            assert_eq!(answer(async || store.history(&job("deleted"), 10).await).await.len(), 1);
        });
    }
}

#[test]
fn a_record_that_the_broker_refuses_is_told_and_costs_no_claim() {
    for version in RabbitMqVersion::ALL {
        let Some(server) = RabbitMq::shared(version) else { return };
        let prefix = RabbitMq::prefix();
        let (policy, full) = (format!("{prefix}refuses"), r#"{"max-length":0,"overflow":"reject-publish"}"#);
        let queues = format!("^{}.*history$", prefix.replace('.', "[.]"));
        server.ctl(&["set_policy", &policy, &queues, full, "--apply-to", "queues"]);
        block_on(async {
            let store = connected(RabbitMqBackend::new(server.url()).prefix(&prefix)).await;
            let won = claim("refused", 100);
            assert_eq!(persistently(&store, &won).await, SlotOutcome::Won);
            assert_eq!(persistently(&store, &again(&won)).await, SlotOutcome::Taken);
            let error = store.finish(&finish(&won)).await.expect_err("it is refused");
            assert_eq!(error.kind(), BackendErrorKind::Busy, "{error}");
            server.ctl(&["clear_policy", &policy]);
            answer(async || store.finish(&finish(&won)).await).await;
            assert_eq!(persistently(&store, &won).await, SlotOutcome::Won);
        });
    }
}

#[test]
fn history_outlives_a_broker_that_is_stopped() {
    for version in RabbitMqVersion::ALL {
        let Some(mut server) = RabbitMq::own(version) else { return };
        block_on(async {
            let store = connected(at(&server)).await;
            run(&store, "kept", 10).await;
            let before = answer(async || store.history(&job("kept"), 10).await).await;
            server.stop();
            server.start();
            let after = answer(async || store.history(&job("kept"), 10).await).await;
            assert_eq!(after, before);
        });
    }
}

#[test]
fn a_history_larger_than_can_be_read_is_refused() {
    let Some(server) = RabbitMq::shared(RabbitMqVersion::V4) else { return };
    block_on(async {
        let store = connected(at(server)).await;
        let mut registration = Registration::new(job("large"), "every 1s", "every 1s", instance("here"));
        registration.retention = Retention::new(5001, None);
        let register = async |registration| store.register(&[registration], Duration::from_secs(1)).await;
        let error = register(registration.clone()).await.expect_err("too large");
        assert_eq!(error.kind(), BackendErrorKind::Config);
        assert!(error.to_string().contains("`large`") && error.to_string().contains("5001"), "{error}");
        registration.retention = Retention::new(5000, None);
        register(registration).await.expect("a registration");
    });
}

#[test]
fn the_largest_history_can_be_read() {
    let Some(server) = RabbitMq::shared(RabbitMqVersion::V4) else { return };
    block_on(async {
        let store = connected(at(server)).await;
        for _ in 0..10 {
            let ends: Vec<_> = (0..1000).map(|n| finish(&claim("largest", 10_000 - n))).collect();
            finish_all(&store, &ends).await;
        }
        assert_eq!(answer(async || store.history(&job("largest"), 20_000).await).await.len(), 10_000);
    });
}
