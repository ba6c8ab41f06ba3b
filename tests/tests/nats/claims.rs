//! The store without leases, where its way to decide has traps.

use std::time::Duration;

use anarchon::backend::{Backend as _, JobLimits};
use anarchon::option::Retention;
use anarchon::run::{Registration, SlotClaim, SlotOutcome, Trim};
use anarchon::{AnyBackend, AnyClaimBackend, BackendErrorKind, ClaimBackend as _, NatsBackend, Scheduler, Slot, Token};
use tests::backends::{answer, instance, job};
use tests::servers::{Nats, NatsVersion};
use tests::{Proxy, Server as _};

use crate::{ask, block_on, claims_at, client, clock_shows, now, number, own_servers, publish};

const MONTH: Duration = Duration::from_secs(30 * 86_400);

fn claim(slot: i64) -> SlotClaim {
    let mut claim = SlotClaim::new(job("a"), Slot::from_ms(slot), Token::random(), instance("here"));
    claim.limit = Duration::from_secs(3600);
    claim
}

fn again(claim: &SlotClaim) -> SlotClaim {
    let mut again = claim.clone();
    again.token = Token::random();
    again
}

async fn outcome(store: &NatsBackend, claim: &SlotClaim) -> SlotOutcome {
    answer(async || store.claim(claim).await).await.value
}

/// A leader that was deposed can keep the id of a message that was never stored.
#[test]
fn a_duplicate_that_was_never_stored_is_no_lost_slot_and_is_won_once() {
    for server in own_servers() {
        block_on(async {
            let (store, client) = (claims_at(&server.url()).await, client(&server).await);
            let claim = claim(now(&store).await - 1000);
            let subject = format!("cron.a.run.{}", claim.slot.ms());
            let id = format!("a:{}", claim.slot.ms());
            publish(&client, &subject, &[("Nats-Msg-Id", &id)], "{}").await;
            let stored = number(&client, "CRON", &subject).await;
            ask(&client, "STREAM.MSG.DELETE.CRON", &format!("{{\"seq\":{stored}}}")).await;
            let copy = publish(&client, &subject, &[("Nats-Msg-Id", &id)], "{}").await;
            assert!(copy.contains("\"duplicate\""), "the id is remembered, and there is nothing: {copy}");
            assert_eq!(outcome(&store, &claim).await, SlotOutcome::Won);
            assert_eq!(outcome(&store, &again(&claim)).await, SlotOutcome::Taken);
            assert_eq!(outcome(&store, &claim).await, SlotOutcome::Won);
        });
    }
}

#[test]
fn a_message_that_the_server_is_given_again_without_its_id_is_not_stored_twice() {
    for server in own_servers() {
        block_on(async {
            let (store, client) = (claims_at(&server.url()).await, client(&server).await);
            let claim = claim(now(&store).await - 1000);
            assert_eq!(outcome(&store, &claim).await, SlotOutcome::Won);
            let subject = format!("cron.a.run.{}", claim.slot.ms());
            let copy = publish(&client, &subject, &[("Nats-Expected-Last-Subject-Sequence", "0")], "{}").await;
            assert!(copy.contains("wrong last sequence"), "{copy}");
        });
    }
}

/// The window counts from the first publish: trying again makes it no longer, and past its end nobody wins.
#[test]
fn the_window_does_not_slide_and_a_slot_past_it_is_late() {
    for server in own_servers() {
        block_on(async {
            let window = Duration::from_secs(2);
            let store = NatsBackend::new(server.url()).duplicate_window(window);
            store.connect().await.expect("a connection");
            let won = claim(now(&store).await - 100);
            assert_eq!(outcome(&store, &won).await, SlotOutcome::Won);
            for after in (0..=2500).step_by(100) {
                clock_shows(&store, won.slot.ms() + after).await;
                assert_ne!(outcome(&store, &again(&won)).await, SlotOutcome::Won, "{after} ms after the slot");
            }
            let never_claimed = claim(won.slot.ms() - 1);
            assert_eq!(outcome(&store, &never_claimed).await, SlotOutcome::Late);
        });
    }
}

#[test]
fn neither_a_trim_nor_a_killed_server_lets_a_slot_be_won_again() {
    for mut server in own_servers() {
        let url = server.url();
        block_on(async {
            let store = NatsBackend::new(&url).history_size(1);
            store.connect().await.expect("a connection");
            let start = now(&store).await;
            let claims: Vec<SlotClaim> = (1..=5).map(|n| claim(start - n * 1000)).collect();
            for claim in &claims {
                assert_eq!(outcome(&store, claim).await, SlotOutcome::Won);
            }
            let trim = Trim::new(job("a"), Retention::new(0, None), Duration::ZERO);
            store.trim(&[trim]).await.expect("an answer");
            for restarted in [false, true] {
                if restarted {
                    server.kill();
                    server.start();
                }
                for claim in &claims {
                    assert_eq!(outcome(&store, &again(claim)).await, SlotOutcome::Taken, "restarted: {restarted}");
                    assert_eq!(outcome(&store, claim).await, SlotOutcome::Won, "restarted: {restarted}");
                }
            }
        });
    }
}

#[test]
fn old_runs_are_trimmed_down_to_the_largest_history_size_of_all() {
    for server in own_servers() {
        block_on(async {
            let window = Duration::from_millis(300);
            let store = |size| NatsBackend::new(server.url()).duplicate_window(window).history_size(size);
            let (small, large) = (store(2), store(4));
            for store in [&small, &large, &small] {
                store.connect().await.expect("a connection");
            }
            let mut last = 0;
            for _ in 0..10 {
                let claim = claim(now(&small).await);
                assert_eq!(outcome(&small, &claim).await, SlotOutcome::Won);
                last = claim.slot.ms();
                clock_shows(&small, last + 1).await;
            }
            let trim = [Trim::new(job("a"), Retention::new(1, None), Duration::ZERO)];
            small.trim(&trim).await.expect("an answer");
            clock_shows(&small, last + 301).await;
            small.trim(&trim).await.expect("an answer");
            let kept = small.history(&job("a"), 100).await.expect("an answer");
            assert_eq!(kept.len(), 4);
            assert_eq!(kept[0].slot().ms(), last);
            let mut more = Registration::new(job("b"), "every 1s", "every 1s", instance("here"));
            more.retention = Retention::new(7, None);
            small.register(&[more], MONTH).await.expect("an answer");
            let info = ask(&client(&server).await, "STREAM.INFO.CRON", "").await;
            assert!(info.contains("\"max_msgs_per_subject\":7"), "a job's own counts as well: {info}");
        });
    }
}

#[test]
fn another_window_or_other_subjects_than_the_streams_are_refused_with_both() {
    for server in own_servers() {
        block_on(async {
            claims_at(&server.url()).await;
            for (store, shown) in [
                (
                    NatsBackend::new(server.url()).duplicate_window(Duration::from_secs(60)),
                    ["`duplicate_window`", "300000000000", "60000000000"],
                ),
                (NatsBackend::new(server.url()).prefix("billing."), ["`subjects`", "cron.>", "billing.>"]),
            ] {
                let error = store.connect().await.expect_err("it is another");
                assert_eq!(error.kind(), BackendErrorKind::Config, "{error}");
                shown.iter().for_each(|word| assert!(error.to_string().contains(word), "{error}"));
            }
            claims_at(&server.url()).await;
        });
    }
}

#[test]
fn a_stream_that_would_forget_is_refused_with_both_values() {
    for server in own_servers() {
        block_on(async {
            let client = client(&server).await;
            for (stream, setting, shown) in [
                ("memory", "\"storage\":\"memory\"", ["storage", "\"memory\"", "\"file\""]),
                ("aging", "\"storage\":\"file\",\"max_age\":300000000000", ["max_age", "300000000000", "0"]),
            ] {
                let config = format!(
                    "{{\"name\":\"{stream}\",\"subjects\":[\"{stream}.>\"],\"retention\":\"limits\",\
                     \"discard\":\"new\",\"num_replicas\":1,\"duplicate_window\":300000000000,{setting}}}"
                );
                let made = ask(&client, &format!("STREAM.CREATE.{stream}"), &config).await;
                assert!(!made.contains("\"error\""), "{made}");
                let store = NatsBackend::new(server.url()).stream(stream).prefix(format!("{stream}."));
                let error = store.connect().await.expect_err("it forgets");
                assert_eq!(error.kind(), BackendErrorKind::Config);
                shown.iter().for_each(|word| assert!(error.to_string().contains(word), "{error}"));
            }
        });
    }
}

#[test]
fn a_claim_whose_connection_breaks_anywhere_wins_once_with_its_token() {
    for server in own_servers() {
        let proxy = Proxy::before(server.address());
        block_on(async {
            let store = claims_at(&format!("nats://{}", proxy.address())).await;
            for n in 1..=4 {
                for (name, cut) in [("before", Proxy::cut_before as fn(&Proxy, u64)), ("after", Proxy::cut_after)] {
                    let claim = claim(answer(async || store.clock().await).await.expect("a clock") - 10);
                    cut(&proxy, n);
                    for _ in 0..2 {
                        assert_eq!(outcome(&store, &claim).await, SlotOutcome::Won, "{name} {n}");
                        assert_eq!(outcome(&store, &again(&claim)).await, SlotOutcome::Taken, "{name} {n}");
                    }
                }
            }
            assert_eq!(answer(async || store.history(&job("a"), 100).await).await.len(), 8);
        });
    }
}

#[test]
fn names_and_waits_that_a_stream_cannot_honour_are_refused_when_a_job_is_added() {
    async fn nothing() {}
    let Some(server) = Nats::own(NatsVersion::Nats215) else { return };
    block_on(async {
        let second = Duration::from_secs(1);
        let store = NatsBackend::new(server.url());
        let refused = store.check_job(&JobLimits::new(job("a.b"), second, second, None)).expect_err("a dot");
        assert!(refused.option == "name" && refused.reason.contains("'.'"), "{refused}");
        let scheduler = Scheduler::builder(store).start().await.expect("a scheduler");
        let error = scheduler.every("a.b", "10s", nothing).add().await.expect_err("a dot");
        assert!(error.to_string().contains("`a.b`") && error.to_string().contains("nats"), "{error}");
        let error = scheduler.every("a", "1h", nothing).max_late("5m").add().await.expect_err("as long as the window");
        assert!(error.to_string().contains("max_late"), "{error}");
        scheduler.every("a", "1h", nothing).max_late("4m").add().await.expect("it fits");
        scheduler.stop().await.expect("a stop");
    });
}

#[test]
fn a_url_of_each_kind_is_refused_for_the_other_by_name() {
    let error = AnyBackend::connect("nats://localhost").expect_err("it only claims");
    assert!(error.to_string().contains("`nats` only claims"), "{error}");
    assert!(AnyClaimBackend::connect("nats://localhost").is_ok());
    let error = AnyClaimBackend::connect("nats-kv://localhost").expect_err("it has leases");
    assert!(error.to_string().contains("`nats:kv` holds leases"), "{error}");
    for wrong in ["nats-kv://localhost?size=1", "nats://localhost?replicas=many"] {
        let error = AnyBackend::connect(wrong).expect_err("a wrong option");
        assert!(error.to_string().contains("replicas"), "{error}");
    }
}
