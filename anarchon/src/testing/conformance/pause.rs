//! Pausing and resuming a job.

use std::time::Duration;

use super::Fixture;
use super::support::{Client, LONG, failed};
use crate::backend::LeaseBackend;
use crate::run::{BeatOutcome, ClaimOutcome, Ending, RunClaim, SkipReason, SkipRecord, Status};

/// A pause is kept with who, when and why, for every client, until the job is resumed.
pub async fn a_pause_says_who_when_and_why<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let other = client.other(fixture, "other").await;
    assert_eq!(client.paused().await, None);
    client.pause("it's \"late\" — 😴; drop table jobs; --").await;
    let pause = other.paused().await.expect("the job is paused");
    assert_eq!((pause.by.as_str(), pause.note.as_str()), ("somebody", "it's \"late\" — 😴; drop table jobs; --"));
    assert!(pause.at >= client.start && pause.at <= client.now().await, "paused at {}", pause.at);
    client.pause("").await;
    assert_eq!(other.paused().await.expect("still paused").note, "", "pausing again changes the note");
    assert_eq!(client.on("another job").paused().await, None);
    other.resume().await;
    assert_eq!(client.paused().await, None);
    client.resume().await;
    assert_eq!(client.paused().await, None, "resuming twice is no mistake");
}

/// A slot that falls due while its job is paused is skipped on the record, and stays so.
pub async fn a_paused_jobs_slot_is_skipped_for_everyone<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    client.pause("").await;
    let slot = client.ago(1000);
    assert_eq!(client.claim(&client.scheduled(slot)).await, ClaimOutcome::Paused { recorded: true });
    assert_eq!(client.done(&client.scheduled(slot)).await, Status::Skipped);
    client.resume().await;
    for claim in [client.scheduled(slot), client.catch_up(slot), client.takeover(slot)] {
        assert_eq!(client.done(&claim).await, Status::Skipped);
    }
    assert_eq!(client.skips().await, [SkipRecord::new(client.job.clone(), slot, slot, 1, SkipReason::Paused)]);
    client.win(&client.scheduled(client.ago(500))).await;
}

/// A catch-up of a paused job records nothing, and wins once the job is resumed.
pub async fn a_paused_jobs_catch_up_is_asked_again<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    client.pause("").await;
    let claim = client.catch_up(client.ago(1000));
    assert_eq!(client.claim(&claim).await, ClaimOutcome::Paused { recorded: false });
    client.assert_nothing_written().await;
    client.resume().await;
    client.win(&claim).await;
}

/// A pause stops no running attempt, and other jobs go on.
pub async fn a_pause_stops_no_running_attempt<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let claim = client.scheduled(client.ago(1000));
    let won = client.win(&claim).await;
    client.pause("").await;
    assert_eq!(client.beat(&won, LONG).await, BeatOutcome::Alive);
    assert_eq!(client.win(&claim).await, won, "its own claim wins again");
    assert!(matches!(client.claim(&client.takeover(won.run.slot)).await, ClaimOutcome::Running { .. }));
    assert_eq!(client.end(&won, Ending::Done).await, Status::Done);
    let other = client.on("another job");
    other.win(&other.scheduled(client.ago(1000))).await;
}

/// A run that could be taken over waits, unrecorded, until its job is resumed: a dead one, and one that waited to be
/// retried.
pub async fn a_paused_jobs_runs_wait_to_be_taken_over<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let dead = client.on("dead");
    let slot = client.ago(1000);
    dead.win_and_die(&dead.scheduled(slot)).await;
    let retried = client.on("retried");
    let claim = RunClaim { retry_failed: Some(Duration::from_millis(1)), ..retried.scheduled(slot) };
    let won = retried.win(&claim).await;
    assert_eq!(retried.end(&won, failed("no")).await, Status::Waiting);
    retried.until_over(&won.run).await;
    for client in [dead, retried] {
        client.pause("").await;
        for claim in [client.takeover(slot), client.scheduled(slot), client.catch_up(slot)] {
            client
                .unchanged(async || {
                    assert_eq!(client.claim(&claim).await, ClaimOutcome::Paused { recorded: false });
                })
                .await;
        }
        client.resume().await;
        assert_eq!(client.win(&client.takeover(slot)).await.attempt, 2);
    }
}

/// A paused job with a live run is paused before anything else.
pub async fn paused_comes_before_overlap<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    client.win(&client.scheduled(client.ago(3000))).await;
    client.pause("").await;
    let catch_up = client.catch_up(client.ago(1000));
    assert_eq!(client.claim(&catch_up).await, ClaimOutcome::Paused { recorded: false });
    let scheduled = client.scheduled(client.ago(1000));
    assert_eq!(client.claim(&scheduled).await, ClaimOutcome::Paused { recorded: true });
    assert_eq!(client.skips().await[0].reason, SkipReason::Paused);
}

/// Being late, and a takeover of nothing, come before a pause.
pub async fn late_and_gone_come_before_paused<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    client.pause("").await;
    let late = RunClaim { limit: Duration::from_secs(1), ..client.scheduled(client.ago(60_000)) };
    assert!(matches!(client.claim(&late).await, ClaimOutcome::Late(_)));
    assert_eq!(client.claim(&client.takeover(client.ago(1000))).await, ClaimOutcome::Gone);
    client.assert_nothing_written().await;
}

/// Pausing does not keep expired runs open: they are closed by the next claim.
pub async fn a_pause_keeps_no_expired_run_open<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let dead = client.win_and_die(&RunClaim { max_attempts: 1, ..client.scheduled(client.ago(1000)) }).await;
    client.pause("").await;
    assert_eq!(client.done(&client.takeover(dead.run.slot)).await, Status::Dead);
}
