//! Manual runs: a key space of their own, a lease, one attempt.

use std::time::Duration;

use super::Fixture;
use super::support::{Client, LONG, SHORT, failed};
use crate::backend::LeaseBackend;
use crate::option::Overlap;
use crate::run::{
    AttemptStatus, BeatOutcome, ClaimOutcome, Ending, FinishOutcome, ManualClaim, ManualOutcome, Reason, RunClaim,
    Status, Trim,
};
use crate::slot::Token;
use crate::{JobName, Retention};

/// A manual run starts now, under a lease, with a fence, and is seen by all.
pub async fn a_manual_run_starts_now_with_a_lease<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let claim = client.manual();
    let (run, fence) = client.win_manual(&claim).await;
    assert!(run.slot.ms() >= client.start && run.slot.ms() <= client.now().await, "at {}", run.slot);
    assert!(fence.is_some_and(|fence| i64::try_from(fence).is_ok_and(|fence| fence >= client.start)), "{fence:?}");
    let active = client.active_run(&run).await.expect("a manual run is active");
    assert_eq!((active.status, active.attempt, active.instance), (Status::Running, 1, Some(client.instance.clone())));
    assert!(active.left > Duration::ZERO && active.left <= LONG);
    let record = client.attempt(claim.token).await;
    assert_eq!((record.run, record.reason, record.fence), (run.clone(), Reason::Manual, fence));
    assert_eq!(record.status, Some(AttemptStatus::Running));
    assert_eq!(client.beat_run(&run, claim.token, LONG).await, BeatOutcome::Alive);
    let ended = client.finish_with(&run, claim.token, failed("no")).await;
    assert_eq!(ended, FinishOutcome::Recorded { run: Status::Failed, retry_in: None });
    assert_eq!(client.finish_with(&run, claim.token, failed("no")).await, ended);
    let record = client.attempt(claim.token).await;
    assert_eq!((record.status, record.error.as_deref()), (Some(AttemptStatus::Failed), Some("no")));
    assert_eq!(client.beat_run(&run, claim.token, LONG).await, BeatOutcome::Lost);
    assert_eq!(client.active().await, []);
}

/// The same packet sent twice starts one run, and is answered the same; after its end it starts no other.
pub async fn a_manual_claim_sent_twice_starts_one_run<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    for exclusive in [false, true] {
        let claim = ManualClaim { exclusive, ..client.manual() };
        let won = client.win_manual(&claim).await;
        client.unchanged(async || assert_eq!(client.win_manual(&claim).await, won)).await;
        client.finish_with(&won.0, claim.token, Ending::Done).await;
        client.unchanged(async || assert_eq!(client.claim_manual(&claim).await, ManualOutcome::Late)).await;
    }
    assert_eq!(client.attempts().await.len(), 2);
}

/// A repeated packet renews the lease, since its sender counts from the sending of the one that was answered.
pub async fn a_manual_claim_sent_twice_renews_its_lease<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let claim = ManualClaim { lease: Duration::from_secs(30), ..client.manual() };
    let (run, _) = client.win_manual(&claim).await;
    client.win_manual(&ManualClaim { lease: Duration::from_secs(600), ..claim.clone() }).await;
    assert!(client.left(&run).await > Duration::from_secs(300), "renewed");
    client.win_manual(&claim).await;
    assert!(client.left(&run).await > Duration::from_secs(300), "never shortened");
}

/// A manual packet that comes after its `valid_until` starts nothing.
pub async fn a_stale_manual_claim_starts_nothing<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let claim = ManualClaim { valid_until: client.start - 1, ..client.manual() };
    assert_eq!(client.claim_manual(&claim).await, ManualOutcome::Late);
    client.assert_nothing_written().await;
    let fresh = ManualClaim { valid_until: i64::MAX, lease: Duration::from_secs(30), ..claim.clone() };
    let (run, _) = client.win_manual(&fresh).await;
    assert_eq!(client.claim_manual(&ManualClaim { lease: LONG, ..claim }).await, ManualOutcome::Late);
    assert!(client.left(&run).await <= Duration::from_secs(30), "nor does it renew one");
}

/// Manual runs touch no slot: one that starts at a slot's very time does not decide it.
pub async fn manual_runs_touch_no_slot<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let (run, _) = client.win_manual(&client.manual()).await;
    client.pass(Duration::from_millis(1)).await;
    assert_eq!(client.claim(&client.takeover(run.slot)).await, ClaimOutcome::Gone);
    assert_eq!(client.win(&client.scheduled(run.slot)).await.attempt, 1);
    assert_eq!(client.active().await.len(), 2);
}

/// Any number of plain manual runs go on at once, beside a live run, and are in nobody's way.
pub async fn plain_manual_runs_mind_nobody_and_block_nobody<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    for _ in 0..3 {
        client.win_manual(&client.manual()).await;
    }
    let live = client.win(&client.scheduled(client.ago(2000))).await;
    client.win_manual(&client.manual()).await;
    client.end(&live, Ending::Done).await;
    client.win_manual(&ManualClaim { exclusive: true, ..client.manual() }).await;
    assert_eq!(client.active().await.len(), 5);
}

/// An exclusive one is refused while a run of the job is live, of a slot or exclusive.
pub async fn an_exclusive_manual_run_is_refused_beside_a_live_run<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let exclusive = || ManualClaim { exclusive: true, ..client.manual() };
    let live = client.win(&client.scheduled(client.ago(1000))).await;
    let refused = exclusive();
    client.unchanged(async || assert_eq!(client.claim_manual(&refused).await, ManualOutcome::Overlap)).await;
    client.end(&live, Ending::Done).await;
    let (run, _) = client.win_manual(&refused).await;
    assert_eq!(client.claim_manual(&exclusive()).await, ManualOutcome::Overlap);
    client.finish_with(&run, refused.token, Ending::Done).await;
    client.win_manual(&exclusive()).await;
    let other = client.on("another job");
    other.win_manual(&ManualClaim { exclusive: true, ..other.manual() }).await;
}

/// Only live runs refuse it: not one whose lease is over, nor one that waits.
pub async fn an_exclusive_manual_run_minds_no_dead_run<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    client.win_and_die(&client.scheduled(client.ago(1000))).await;
    client.win_manual(&ManualClaim { exclusive: true, ..client.manual() }).await;
    let waiting = client.on("waiting");
    let claim = RunClaim { retry_failed: Some(LONG), ..waiting.scheduled(client.ago(1000)) };
    let won = waiting.win(&claim).await;
    assert_eq!(waiting.end(&won, failed("no")).await, Status::Waiting);
    waiting.win_manual(&ManualClaim { exclusive: true, ..waiting.manual() }).await;
}

/// An exclusive one blocks slots under `skip`, new and taken over, while its own lease lives.
pub async fn an_exclusive_manual_run_blocks_slots<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let dead = client.win_and_die(&client.scheduled(client.ago(5000))).await;
    let claim = ManualClaim { exclusive: true, ..client.manual() };
    let (run, _) = client.win_manual(&claim).await;
    for (blocked, recorded) in [
        (client.takeover(dead.run.slot), false),
        (client.catch_up(client.ago(3000)), false),
        (client.scheduled(client.ago(3000)), true),
    ] {
        match client.claim(&blocked).await {
            ClaimOutcome::Overlap { blocker, left, recorded: as_skip } => {
                assert_eq!((blocker, as_skip), (run.clone(), recorded));
                assert!(left > Duration::ZERO && left <= LONG);
            }
            other => panic!("the manual run is in the way, but {other:?}"),
        }
    }
    client.win(&RunClaim { overlap: Overlap::Allow, ..client.scheduled(client.ago(2000)) }).await;
    client.finish_with(&run, claim.token, Ending::Done).await;
}

/// Once its lease is over it blocks nobody, is closed as dead, and its attempt is lost.
pub async fn a_manual_run_is_dead_after_its_lease<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    for closed_by in ["active", "trim", "a claim", "another one"] {
        let client = client.on(closed_by);
        let claim = ManualClaim { lease: SHORT, exclusive: true, ..client.manual() };
        let (run, _) = client.win_manual(&claim).await;
        client.pass(SHORT).await;
        match closed_by {
            "trim" => client.trim(&Trim::new(client.job.clone(), Retention::default(), LONG)).await,
            "a claim" => drop(client.win(&client.scheduled(client.ago(1000))).await),
            "another one" => drop(client.win_manual(&ManualClaim { exclusive: true, ..client.manual() }).await),
            _ => {}
        }
        assert_eq!(client.active_run(&run).await, None, "closed by {closed_by}");
        let record = client.attempt(claim.token).await;
        assert_eq!((record.status, record.run_status), (Some(AttemptStatus::Lost), Some(Status::Dead)));
        assert!(record.ended_at.is_some());
        assert_eq!(client.beat_run(&run, claim.token, LONG).await, BeatOutcome::Lost);
        assert_eq!(client.finish_with(&run, claim.token, Ending::Done).await, FinishOutcome::Lost);
        client.unchanged(async || assert_eq!(client.claim_manual(&claim).await, ManualOutcome::Late)).await;
    }
}

/// A manual run may start while its job is paused.
pub async fn a_paused_job_can_be_run_by_hand<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    client.pause("").await;
    client.win_manual(&client.manual()).await;
    client.win_manual(&ManualClaim { exclusive: true, ..client.manual() }).await;
    assert_eq!(client.skips().await, []);
}

/// Trimming a manual run moves no trim mark, so no slot becomes late by it.
pub async fn a_trimmed_manual_run_moves_no_trim_mark<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let claim = client.manual();
    let (run, _) = client.win_manual(&claim).await;
    client.finish_with(&run, claim.token, Ending::Done).await;
    client.pass(Duration::from_millis(5)).await;
    client.trim_until_gone(claim.token).await;
    let slot = crate::slot::Slot::from_ms(run.slot.ms() - 1);
    assert_eq!(client.win(&client.scheduled(slot)).await.attempt, 1);
}

/// One that was given back is over: nobody takes it over, and it is in nobody's way.
pub async fn a_manual_run_that_was_given_back_is_over<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let claim = ManualClaim { exclusive: true, ..client.manual() };
    let (run, _) = client.win_manual(&claim).await;
    let release = crate::run::Release::unstarted(run.clone(), claim.token);
    for _ in 0..2 {
        assert_eq!(client.release(&release).await, crate::run::ReleaseOutcome::Released);
    }
    client.win(&client.scheduled(client.ago(1000))).await;
    assert_eq!(client.active_run(&run).await, None);
    assert_eq!(client.claim_manual(&claim).await, ManualOutcome::Late, "a copy starts nothing any more");
    assert_eq!(client.beat_run(&run, claim.token, LONG).await, BeatOutcome::Lost);
}

/// A token of a manual run proves nothing about another run.
pub async fn manual_tokens_prove_nothing_elsewhere<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let claim = client.manual();
    let (run, _) = client.win_manual(&claim).await;
    let foreign = Token::random();
    assert_eq!(client.beat_run(&run, foreign, LONG).await, BeatOutcome::Lost);
    assert_eq!(client.finish_with(&run, foreign, Ending::Done).await, FinishOutcome::Lost);
    let won = client.win(&client.scheduled(client.ago(1000))).await;
    assert_eq!(client.finish_with(&won.run, claim.token, Ending::Done).await, FinishOutcome::Lost);
    let jobs: [JobName; 1] = [client.job.clone()];
    assert_eq!(client.store.active(&jobs).await.expect("active").value.len(), 2);
}
