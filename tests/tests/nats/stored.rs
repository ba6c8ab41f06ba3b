//! What is in a bucket: its settings, texts, and what does not go into a message.

use std::time::Duration;

use anarchon::backend::Backend as _;
use anarchon::run::{ClaimOutcome, Ending, Lateness};
use anarchon::testing::differential::HandClocked as _;
use anarchon::{BackendErrorKind, LeaseBackend as _, NatsKvBackend};
use tests::backends::{attempts, claim, finish, keeps_hostile_texts, won};
use tests::servers::{Nats, NatsVersion};

use crate::{ask, block_on, client, connected, now, own_servers, publish};

#[test]
fn hostile_texts_are_kept_as_they_are() {
    for server in own_servers() {
        block_on(async { keeps_hostile_texts(&connected(&server.url()).await).await });
    }
}

#[test]
fn a_bucket_that_would_forget_is_refused_with_both_values() {
    for server in own_servers() {
        block_on(async {
            let client = client(&server).await;
            for (bucket, setting, shown) in [
                ("memory", "\"storage\":\"memory\"", ["storage", "\"memory\"", "\"file\""]),
                ("aging", "\"storage\":\"file\",\"max_age\":60000000000", ["max_age", "60000000000", "0"]),
            ] {
                let config = format!(
                    "{{\"name\":\"KV_{bucket}\",\"subjects\":[\"$KV.{bucket}.>\"],\"retention\":\"limits\",\
                     \"discard\":\"new\",\"num_replicas\":1,{setting}}}"
                );
                let made = ask(&client, &format!("STREAM.CREATE.KV_{bucket}"), &config).await;
                assert!(!made.contains("\"error\""), "{made}");
                let error = NatsKvBackend::new(server.url()).bucket(bucket).connect().await.expect_err("it forgets");
                assert_eq!(error.kind(), BackendErrorKind::Config);
                shown.iter().for_each(|word| assert!(error.to_string().contains(word), "{error}"));
            }
            let error = NatsKvBackend::new(server.url()).bucket("a.b").connect().await.expect_err("a wrong name");
            assert!(error.to_string().contains("`bucket` is \"a.b\""), "{error}");
        });
    }
}

#[test]
fn a_state_of_a_newer_release_is_refused_and_kept() {
    let Some(server) = Nats::own(NatsVersion::Nats215) else { return };
    block_on(async {
        let (store, client) = (connected(&server.url()).await, client(&server).await);
        for (payload, word) in [("\u{3}", "newer release"), ("\u{1}garbage", "no state of ours")] {
            publish(&client, "$KV.anarchon.job.a", &[], payload).await;
            let error = store.claim(&claim("a", 1000)).await.expect_err("it cannot be read");
            assert_eq!(error.kind(), BackendErrorKind::Config, "{error}");
            assert!(error.to_string().contains(word), "{error}");
            let kept = ask(&client, "STREAM.MSG.GET.KV_anarchon", "{\"last_by_subj\":\"$KV.anarchon.job.a\"}").await;
            assert!(kept.contains("\"data\""), "{kept}");
        }
    });
}

#[test]
fn history_that_does_not_go_into_a_message_goes_oldest_first_and_its_slots_stay_decided() {
    let Some(server) = Nats::start_with(NatsVersion::Nats215, "max_payload: 16384") else { return };
    block_on(async {
        let store = connected(&server.url()).await;
        let start = now(&store).await;
        let slot = |n: i64| start - 100_000 + n;
        for n in 0..40 {
            let claim = claim("a", slot(n));
            let outcome = store.claim(&claim).await.expect("there is room").value;
            assert!(won(&outcome), "{n}: {outcome:?}");
            let ending = Ending::Failed("x".repeat(2000));
            store.finish(&finish(&claim, ending)).await.expect("there is room");
        }
        let kept = attempts(&store, "a").await;
        assert!((3..8).contains(&kept.len()), "{}", kept.len());
        assert_eq!(kept[0].run.slot.ms(), slot(39), "the newest");
        let outcome = store.claim(&claim("a", slot(0))).await.expect("an answer").value;
        assert_eq!(outcome, ClaimOutcome::Late(Lateness::Trimmed));
    });
}

/// Instances that find a job alike, and do nothing about it, write nothing.
#[test]
fn a_claim_that_is_lost_writes_nothing() {
    for server in own_servers() {
        block_on(async {
            let (store, client) = (connected(&server.url()).await, client(&server).await);
            let first = claim("a", now(&store).await - 1000);
            assert!(won(&store.claim(&first).await.expect("an answer").value));
            let before = crate::number(&client, "KV_anarchon", "$KV.anarchon.job.a").await;
            for _ in 0..5 {
                let mut other = claim("a", first.slot.ms());
                other.lease = Duration::from_secs(5);
                assert!(matches!(store.claim(&other).await.expect("an answer").value, ClaimOutcome::Running { .. }));
            }
            assert_eq!(crate::number(&client, "KV_anarchon", "$KV.anarchon.job.a").await, before);
        });
    }
}

/// The time is asked while the state is read, so the state may have been written a little later.
#[test]
fn a_run_is_never_claimed_before_the_one_ended_that_it_follows_unless_the_clock_was_set_back() {
    for server in own_servers() {
        block_on(async {
            let (ahead, store) = (connected(&server.url()).await, connected(&server.url()).await);
            let start = now(&store).await;
            for (name, by) in [("ahead", 5_000), ("set-back", 3_600_000)] {
                ahead.set_clock(start + by).await;
                let first = claim(name, start - 2000);
                assert!(won(&ahead.claim(&first).await.expect("an answer").value));
                ahead.finish(&finish(&first, Ending::Done)).await.expect("an answer");
                assert!(won(&store.claim(&claim(name, start - 1000)).await.expect("an answer").value));
            }
            let kept = attempts(&store, "ahead").await;
            assert_eq!((kept[1].ended_at, kept[0].claimed_at), (Some(start + 5_000), start + 5_000));
            let claimed = attempts(&store, "set-back").await[0].claimed_at;
            assert!((start..start + 3_600_000).contains(&claimed), "the job goes on at {claimed}");
        });
    }
}
