//! `retry_failed`: a failed or timed-out attempt is started again after a wait.

use std::time::Duration;

use super::Fixture;
use super::support::{Client, LONG, failed, timed_out};
use crate::backend::LeaseBackend;
use crate::lease::MAX_RETRY_WAIT;
use crate::run::{AttemptStatus, ClaimOutcome, Ending, Finish, FinishOutcome, Reason, RunClaim, Status};

fn retrying(claim: RunClaim, wait: Duration) -> RunClaim {
    RunClaim { retry_failed: Some(wait), ..claim }
}

fn wait_of(outcome: &FinishOutcome) -> Duration {
    match outcome {
        FinishOutcome::Recorded { run: Status::Waiting, retry_in: Some(wait) } => *wait,
        other => panic!("the run should wait for its retry, but {other:?}"),
    }
}

/// A failed attempt leaves its run waiting: nobody can start it before its time.
pub async fn a_failed_attempt_waits_for_its_retry<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    for (name, ending, status) in
        [("fails", failed("no"), AttemptStatus::Failed), ("is slow", timed_out("slow"), AttemptStatus::TimedOut)]
    {
        let client = client.on(name);
        let slot = client.ago(1000);
        let won = client.win(&retrying(client.scheduled(slot), LONG)).await;
        let wait = wait_of(&client.finish(&won, ending).await);
        assert!(wait > Duration::from_secs(30) && wait <= LONG, "waits {wait:?}");
        let active = client.active_run(&won.run).await.expect("a waiting run is active");
        assert_eq!((active.status, active.attempt), (Status::Waiting, 1));
        assert!(active.left > Duration::ZERO && active.left <= LONG);
        for claim in [client.takeover(slot), client.scheduled(slot), client.catch_up(slot)] {
            let answer = client.unchanged(async || client.claim(&claim).await).await;
            assert!(matches!(answer, ClaimOutcome::Running { left } if left > Duration::ZERO && left <= LONG));
        }
        assert_eq!((client.status(&won).await, client.run_status(&won).await), (status, Status::Waiting));
    }
}

/// Once the wait is over any instance starts the next attempt, under any kind of claim.
pub async fn any_instance_restarts_a_run_whose_wait_is_over<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let here = Client::new(fixture).await;
    let there = here.other(fixture, "there").await;
    for kind in ["scheduled", "catch-up", "takeover"] {
        let (here, there) = (here.on(kind), there.on(kind));
        let slot = here.ago(1000);
        let won = here.win(&retrying(here.scheduled(slot), Duration::from_millis(1))).await;
        assert_eq!(here.end(&won, failed("no")).await, Status::Waiting);
        here.until_over(&won.run).await;
        let kind = crate::run::ClaimKind::parse(kind).expect("a kind");
        let next = there.win(&RunClaim { kind, limit: Duration::ZERO, ..there.scheduled(slot) }).await;
        assert_eq!((next.attempt, next.reason), (2, Reason::Retry));
        assert!(next.fence > won.fence);
        assert_eq!(here.status(&won).await, AttemptStatus::Failed, "the attempt before stays failed");
        assert_eq!(there.end(&next, Ending::Done).await, Status::Done);
        assert_eq!(here.run_status(&won).await, Status::Done);
    }
}

/// The wait doubles with each failure, until no attempt is left.
pub async fn the_wait_doubles_until_no_attempt_is_left<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let slot = client.ago(1000);
    let first = Duration::from_millis(40);
    let mut won = client.win(&RunClaim { max_attempts: 4, ..retrying(client.scheduled(slot), first) }).await;
    for factor in [1, 2, 4] {
        let wait = wait_of(&client.finish(&won, failed("no")).await);
        assert!(wait <= first * factor && wait > first * factor * 3 / 4, "waits {wait:?}, {factor} times {first:?}");
        client.until_over(&won.run).await;
        won = client.win(&client.takeover(slot)).await;
    }
    assert_eq!(won.attempt, 4);
    let last = client.finish(&won, failed("no")).await;
    assert_eq!(last, FinishOutcome::Recorded { run: Status::Failed, retry_in: None });
    assert_eq!(client.done(&client.takeover(slot)).await, Status::Failed);
}

/// No wait is longer than ten minutes.
pub async fn a_wait_is_ten_minutes_at_most<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let won = client.win(&retrying(client.scheduled(client.ago(1000)), Duration::from_secs(86_400))).await;
    let wait = wait_of(&client.finish(&won, failed("no")).await);
    assert!(wait <= MAX_RETRY_WAIT && wait > MAX_RETRY_WAIT - LONG, "waits {wait:?}");
    assert!(client.left(&won.run).await <= MAX_RETRY_WAIT);
}

/// Without `retry_failed` a failed attempt ends its run, whatever attempts are left.
pub async fn without_retry_failed_a_failure_is_final<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let won = client.win(&RunClaim { max_attempts: 9, ..client.scheduled(client.ago(1000)) }).await;
    let ended = client.finish(&won, failed("no")).await;
    assert_eq!(ended, FinishOutcome::Recorded { run: Status::Failed, retry_in: None });
}

/// A run that must not start twice ends with its attempt, though attempts are left.
pub async fn a_last_ending_is_never_retried<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let won = client.win(&retrying(client.scheduled(client.ago(1000)), Duration::from_millis(1))).await;
    let finish = Finish { last: true, ..client.finish_of(&won.run, won.token, failed("stopped")) };
    let ended = FinishOutcome::Recorded { run: Status::Failed, retry_in: None };
    assert_eq!(client.send_finish(&finish).await, ended);
    client.unchanged(async || assert_eq!(client.send_finish(&finish).await, ended)).await;
    let record = client.attempt(won.token).await;
    assert_eq!((record.note.as_deref(), record.error.as_deref()), (Some("stopped"), Some("stopped")));
    assert_eq!(client.done(&client.takeover(won.run.slot)).await, Status::Failed);
}

/// A run that ended well is not retried.
pub async fn a_run_that_ended_well_is_not_retried<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let won = client.win(&retrying(client.scheduled(client.ago(1000)), Duration::from_millis(1))).await;
    let ended = client.finish(&won, Ending::Done).await;
    assert_eq!(ended, FinishOutcome::Recorded { run: Status::Done, retry_in: None });
}

/// `retry_failed` is kept with the run at its first claim.
pub async fn retry_failed_is_that_of_the_first_claim<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let slot = client.ago(1000);
    let with = client.on("with");
    with.win_and_die(&retrying(with.scheduled(slot), LONG)).await;
    let next = with.win(&with.takeover(slot)).await;
    assert_eq!(with.end(&next, failed("no")).await, Status::Waiting);
    let without = client.on("without");
    without.win_and_die(&without.scheduled(slot)).await;
    let next = without.win(&retrying(without.takeover(slot), LONG)).await;
    assert_eq!(without.end(&next, failed("no")).await, Status::Failed);
}

/// Lost, failed and timed-out attempts all count; those that were handed over or given back do not.
pub async fn lost_and_failed_attempts_count_alike<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let slot = client.ago(1000);
    let claim = RunClaim { max_attempts: 3, ..retrying(client.scheduled(slot), Duration::from_millis(1)) };
    client.hand_over(&client.win(&claim).await).await;
    client.win_and_die(&client.takeover(slot)).await;
    client.give_back(&client.win(&client.takeover(slot)).await).await;
    let third = client.win(&client.takeover(slot)).await;
    assert_eq!(third.attempt, 3);
    assert_eq!(client.end(&third, timed_out("slow")).await, Status::Waiting);
    client.until_over(&third.run).await;
    let fourth = client.win(&client.takeover(slot)).await;
    assert_eq!((fourth.attempt, fourth.reason), (4, Reason::Retry));
    assert_eq!(client.end(&fourth, failed("no")).await, Status::Failed);
}

/// A retry that is handed over again is still the same run, and keeps what it has used up.
pub async fn a_retry_can_be_handed_over<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let slot = client.ago(1000);
    let claim = RunClaim { max_attempts: 2, ..retrying(client.scheduled(slot), Duration::from_millis(1)) };
    let first = client.win(&claim).await;
    assert_eq!(client.end(&first, failed("no")).await, Status::Waiting);
    client.until_over(&first.run).await;
    let second = client.win(&client.takeover(slot)).await;
    client.hand_over(&second).await;
    assert_eq!(client.active_run(&first.run).await.expect("unfinished").status, Status::Running);
    let third = client.win_and_die(&client.takeover(slot)).await;
    assert_eq!((third.attempt, third.reason), (3, Reason::HandOver));
    assert_eq!(client.done(&client.takeover(slot)).await, Status::Dead, "failed once, lost once");
}
