//! The claim table, row by row: what a claim is answered, and what it writes.

use std::time::Duration;

use super::Fixture;
use super::support::{Client, LONG, SHORT, answer, failed, timed_out, until};
use crate::backend::{Backend as _, LeaseBackend};
use crate::lease::MAX_RELEASES;
use crate::option::Overlap;
use crate::run::{AttemptStatus, BeatOutcome, ClaimOutcome, Ending, Reason, ReleaseOutcome, RunClaim, Status};
use crate::slot::{Slot, Token};

/// A slot later than the store's clock is not decided; the claim is told how long to wait.
pub async fn a_slot_in_the_future_is_early<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let claim = client.scheduled(client.ago(-3_600_000));
    for claim in [&claim, &RunClaim { kind: crate::run::ClaimKind::Takeover, ..claim.clone() }] {
        match client.claim(claim).await {
            ClaimOutcome::Early { wait } => {
                assert!(wait > Duration::from_secs(3000) && wait <= Duration::from_secs(3600), "waits {wait:?}");
            }
            other => panic!("a slot in the future is early, and got {other:?}"),
        }
    }
    client.assert_nothing_written().await;
}

/// The same claim, sent until the slot has come, wins it; never before it has come.
pub async fn an_early_claim_asked_again_with_its_token_wins<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let claim = client.scheduled(client.ago(-400));
    let store_ms = until("the slot has come", async || {
        let answer = answer!("claim", client.store.claim(&claim).await);
        match answer.value {
            ClaimOutcome::Early { .. } => None,
            ClaimOutcome::Won { attempt: 1, .. } => Some(answer.store_ms.expect("a store with leases has a clock")),
            other => panic!("first early, then won, but {other:?}"),
        }
    })
    .await;
    assert!(store_ms >= claim.slot.ms(), "won at {store_ms}, before {}", claim.slot.ms());
}

/// A slot without a run is won: attempt 1, with a fence not below the store's time, and a lease of the claim's length.
pub async fn a_free_slot_is_won_as_attempt_one<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let claim = RunClaim { max_attempts: 7, ..client.scheduled(client.ago(1000)) };
    let won = client.win(&claim).await;
    assert_eq!((won.attempt, won.reason, won.max_attempts), (1, Reason::Scheduled, 7));
    assert!(i64::try_from(won.fence).expect("a fence fits i64") >= client.start, "fence {} is old", won.fence);
    let active = client.active_run(&won.run).await.expect("a won run is active");
    assert_eq!((active.status, active.attempt), (Status::Running, 1));
    assert_eq!(active.instance, Some(client.instance.clone()));
    assert!(active.left > Duration::ZERO && active.left <= LONG, "the lease lasts {:?}", active.left);
}

/// A catch-up claim of a free slot wins it, and says why.
pub async fn a_catch_up_is_won_as_one<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let won = client.win(&client.catch_up(client.ago(60_000))).await;
    assert_eq!((won.attempt, won.reason), (1, Reason::CatchUp));
    assert_eq!(client.attempt(won.token).await.reason, Reason::CatchUp);
}

/// A claim that was sent twice has the same answer twice: same attempt, fence and reason, and one attempt in history.
pub async fn the_same_token_wins_again_and_changes_nothing<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let slot = client.ago(1000);
    let first = RunClaim { max_attempts: 5, ..client.scheduled(slot) };
    let won = client.win(&first).await;
    client.unchanged(async || assert_eq!(client.win(&first).await, won)).await;
    client.hand_over(&won).await;
    let second = RunClaim { max_attempts: 9, ..client.takeover(slot) };
    let won = client.win(&second).await;
    assert_eq!((won.attempt, won.max_attempts), (2, 5));
    client.unchanged(async || assert_eq!(client.win(&second).await, won)).await;
}

/// Winning again moves the end of the lease forward, like a heartbeat, and never back.
pub async fn winning_again_renews_the_lease_and_never_shortens_it<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let claim = RunClaim { lease: Duration::from_secs(30), ..client.scheduled(client.ago(1000)) };
    let won = client.win(&claim).await;
    assert!(client.left(&won.run).await <= Duration::from_secs(30));
    client.win(&RunClaim { lease: Duration::from_secs(600), ..claim.clone() }).await;
    assert!(client.left(&won.run).await > Duration::from_secs(300), "renewed");
    client.win(&claim).await;
    assert!(client.left(&won.run).await > Duration::from_secs(300), "not shortened");
}

/// The claim whose token is the current one wins again even when its lease is over and no attempt is left: nobody
/// else has been there.
pub async fn winning_again_comes_before_closing_what_is_used_up<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let within = Duration::ZERO;
    let claim = RunClaim { max_attempts: 1, takeover_within: within, ..client.scheduled(client.ago(1000)) };
    let won = client.win_and_die(&claim).await;
    client.pass(Duration::from_millis(2)).await;
    assert_eq!(client.win(&claim).await, won);
    assert!(!client.left(&won.run).await.is_zero(), "the lease is renewed");
    assert_eq!(client.beat(&won, LONG).await, BeatOutcome::Alive);
}

/// Whoever asks for a slot that runs becomes a backup, told how long the lease lasts.
pub async fn another_token_finds_a_live_run_running<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let slot = client.ago(1000);
    client.win(&client.scheduled(slot)).await;
    let other = client.other(fixture, "other").await;
    let too_old = RunClaim { limit: Duration::ZERO, ..other.scheduled(slot) };
    for claim in [other.scheduled(slot), other.catch_up(slot), other.takeover(slot), too_old] {
        match client.unchanged(async || other.claim(&claim).await).await {
            ClaimOutcome::Running { left } => assert!(left > Duration::ZERO && left <= LONG, "left {left:?}"),
            answer => panic!("a live run is running, but {answer:?}"),
        }
    }
}

/// A finished run answers every claim with its status.
pub async fn a_finished_run_is_done_with_its_status<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let endings = [(Ending::Done, Status::Done), (failed("no"), Status::Failed), (timed_out("slow"), Status::TimedOut)];
    for (ms, (ending, status)) in [3000, 2000, 1000].into_iter().zip(endings) {
        let slot = client.ago(ms);
        let won = client.win(&client.scheduled(slot)).await;
        assert_eq!(client.end(&won, ending).await, status);
        for claim in [client.scheduled(slot), client.catch_up(slot), client.takeover(slot)] {
            assert_eq!(client.unchanged(async || client.done(&claim).await).await, status);
        }
    }
    assert_eq!(client.active().await, [], "finished runs are not active");
}

/// A run whose lease is over starts again as the next attempt, for any kind of claim; the attempt before is lost.
pub async fn a_run_whose_lease_is_over_is_taken_over<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let here = Client::new(fixture).await;
    let there = here.other(fixture, "there").await;
    for kind in ["scheduled", "catch-up", "takeover"] {
        let (here, there) = (here.on(kind), there.on(kind));
        let slot = here.ago(1000);
        let dead = here.win_and_die(&here.scheduled(slot)).await;
        let claim = RunClaim {
            kind: crate::run::ClaimKind::parse(kind).expect("a kind"),
            max_attempts: 9,
            ..there.scheduled(slot)
        };
        let won = there.win(&claim).await;
        assert_eq!((won.attempt, won.reason), (2, Reason::Takeover), "{kind}");
        assert!(won.fence > dead.fence, "the fence grows with a takeover");
        let old = here.attempt(dead.token).await;
        assert_eq!((old.attempt, old.status), (1, Some(AttemptStatus::Lost)));
        assert!(old.ended_at.is_some_and(|at| at >= here.start), "a lost attempt has an end");
        assert_eq!(here.status(&won).await, AttemptStatus::Running);
        let active = here.active_run(&won.run).await.expect("the run is active");
        assert_eq!((active.attempt, active.instance), (2, Some(there.instance.clone())));
        assert!(active.left > SHORT, "the lease is the new claim's");
    }
}

/// How old the slot is does not matter once it has a run.
pub async fn a_takeover_is_never_too_late<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let slot = client.ago(600_000);
    client.win_and_die(&client.scheduled(slot)).await;
    let claim = RunClaim { limit: Duration::ZERO, floor: client.start, ..client.takeover(slot) };
    assert_eq!(client.win(&claim).await.attempt, 2);
}

/// A run whose lease ended longer ago than its `takeover_within` is closed as dead.
pub async fn a_run_nobody_took_over_in_time_is_dead<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let claim = RunClaim { takeover_within: Duration::ZERO, ..client.scheduled(client.ago(1000)) };
    let dead = client.win_and_die(&claim).await;
    client.pass(Duration::from_millis(2)).await;
    assert_eq!(client.done(&client.takeover(dead.run.slot)).await, Status::Dead);
    assert_eq!((client.status(&dead).await, client.run_status(&dead).await), (AttemptStatus::Lost, Status::Dead));
    assert_eq!(client.done(&client.scheduled(dead.run.slot)).await, Status::Dead);
    assert_eq!(client.active().await, []);
}

/// A waiting run that nobody restarted in time ends with the status of its last attempt.
pub async fn a_waiting_run_nobody_took_over_in_time_ends_as_its_last_attempt<F: Fixture<Backend: LeaseBackend>>(
    fixture: &F,
) {
    let client = Client::new(fixture).await;
    for (name, ending, status) in
        [("fails", failed("no"), Status::Failed), ("is slow", timed_out("slow"), Status::TimedOut)]
    {
        let client = client.on(name);
        let slot = client.ago(1000);
        let (retry_failed, takeover_within) = (Some(Duration::from_millis(1)), Duration::ZERO);
        let won = client.win(&RunClaim { retry_failed, takeover_within, ..client.scheduled(slot) }).await;
        assert_eq!(client.end(&won, ending).await, Status::Waiting);
        client.until_over(&won.run).await;
        client.pass(Duration::from_millis(2)).await;
        assert_eq!(client.done(&client.takeover(slot)).await, status);
        assert_eq!(client.run_status(&won).await, status);
        assert_eq!(client.active().await, []);
    }
}

/// A run none of whose attempts is left is closed as dead once its lease is over.
pub async fn a_run_whose_attempts_are_used_up_is_dead<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let slot = client.ago(1000);
    let claim = RunClaim { max_attempts: 2, ..client.scheduled(slot) };
    let first = client.win_and_die(&claim).await;
    let second = client.win_and_die(&client.takeover(slot)).await;
    assert_eq!(second.attempt, 2);
    assert_eq!(client.done(&client.takeover(slot)).await, Status::Dead);
    for attempt in [&first, &second] {
        assert_eq!(
            (client.status(attempt).await, client.run_status(attempt).await),
            (AttemptStatus::Lost, Status::Dead)
        );
    }
    client.unchanged(async || assert_eq!(client.done(&client.scheduled(slot)).await, Status::Dead)).await;
}

/// Giving a run up uses no attempt; the next one starts at once and says why.
pub async fn hand_overs_and_returns_cost_no_attempt<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let slot = client.ago(1000);
    let claim = RunClaim { max_attempts: 1, ..client.scheduled(slot) };
    let first = client.win(&claim).await;
    assert_eq!(client.hand_over(&first).await, ReleaseOutcome::Released);
    let given_up = client.active_run(&first.run).await.expect("a run that was given up is unfinished");
    assert_eq!((given_up.status, given_up.left), (Status::Running, Duration::ZERO));
    assert_eq!(client.status(&first).await, AttemptStatus::HandedOver);
    let second = client.win(&client.takeover(slot)).await;
    assert_eq!((second.attempt, second.reason, second.max_attempts), (2, Reason::HandOver, 1));
    assert!(second.fence > first.fence);
    assert_eq!(client.status(&first).await, AttemptStatus::HandedOver, "a takeover does not make it lost");
    assert_eq!(client.end(&second, Ending::Done).await, Status::Done);
}

/// An attempt that never started keeps its number for the next one.
pub async fn a_returned_attempt_gives_its_number_back<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let slot = client.ago(1000);
    let first = client.win(&client.scheduled(slot)).await;
    assert_eq!(client.give_back(&first).await, ReleaseOutcome::Released);
    assert_eq!(client.status(&first).await, AttemptStatus::Returned);
    let second = client.win(&client.takeover(slot)).await;
    assert_eq!((second.attempt, second.reason), (1, Reason::HandOver));
    assert!(second.fence > first.fence);
    assert_eq!(client.hand_over(&second).await, ReleaseOutcome::Released);
    let third = client.win(&client.takeover(slot)).await;
    assert_eq!(third.attempt, 2);
    let attempts = client.attempts().await;
    assert_eq!(attempts.iter().map(|a| a.token).collect::<Vec<_>>(), [third.token, second.token, first.token]);
}

/// A run can be passed on twenty times, and then it is closed; a release that is sent twice counts once.
pub async fn twenty_releases_close_a_run<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let slot = client.ago(1000);
    for n in 0..MAX_RELEASES {
        let won = client.win(&client.scheduled(slot)).await;
        assert_eq!(won.attempt, n / 2 + 1);
        for _ in 0..2 {
            let answer = if n % 2 == 0 { client.give_back(&won).await } else { client.hand_over(&won).await };
            assert_eq!(answer, ReleaseOutcome::Released);
        }
    }
    assert_eq!(client.done(&client.scheduled(slot)).await, Status::Dead);
    assert_eq!(client.active().await, []);
}

/// A takeover of a slot that has no run finds nothing, and leaves the slot to be won.
pub async fn a_takeover_of_no_run_is_gone_and_decides_nothing<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let slot = client.ago(1000);
    assert_eq!(client.claim(&client.takeover(slot)).await, ClaimOutcome::Gone);
    let too_old = RunClaim { limit: Duration::ZERO, ..client.takeover(slot) };
    assert_eq!(client.claim(&too_old).await, ClaimOutcome::Gone, "before any lateness");
    client.assert_nothing_written().await;
    assert_eq!(client.win(&client.scheduled(slot)).await.attempt, 1);
}

/// `max_attempts` is kept with the run: what later claims say does not matter.
pub async fn max_attempts_are_those_of_the_first_claim<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let slot = client.ago(1000);
    client.win_and_die(&RunClaim { max_attempts: 2, ..client.scheduled(slot) }).await;
    let second = client.win_and_die(&RunClaim { max_attempts: 9, ..client.takeover(slot) }).await;
    assert_eq!((second.attempt, second.max_attempts), (2, 2));
    assert_eq!(client.done(&RunClaim { max_attempts: 9, ..client.takeover(slot) }).await, Status::Dead);
    let more = client.on("more");
    more.win_and_die(&RunClaim { max_attempts: 2, ..more.scheduled(slot) }).await;
    assert_eq!(more.win(&RunClaim { max_attempts: 1, ..more.takeover(slot) }).await.attempt, 2);
}

/// `takeover_within` is kept with the run.
pub async fn takeover_within_is_that_of_the_first_claim<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let slot = client.ago(1000);
    let long = RunClaim { takeover_within: Duration::from_secs(3600), ..client.scheduled(slot) };
    client.win_and_die(&long).await;
    client.pass(Duration::from_millis(5)).await;
    let second = RunClaim { takeover_within: Duration::ZERO, ..client.takeover(slot) };
    assert_eq!(client.win_and_die(&second).await.attempt, 2);
    client.pass(Duration::from_millis(5)).await;
    assert_eq!(client.win(&RunClaim { takeover_within: Duration::ZERO, ..client.takeover(slot) }).await.attempt, 3);
}

/// Before it decides, a claim closes the expired and used-up runs of its whole job, and leaves those that are neither.
pub async fn what_is_expired_or_used_up_is_closed_by_the_next_claim_of_its_job<F: Fixture<Backend: LeaseBackend>>(
    fixture: &F,
) {
    let client = Client::new(fixture).await;
    let allow = |ms| RunClaim { overlap: Overlap::Allow, ..client.scheduled(client.ago(ms)) };
    let used_up = client.win_and_die(&RunClaim { max_attempts: 1, ..allow(4000) }).await;
    let expired = client.win_and_die(&RunClaim { takeover_within: Duration::ZERO, ..allow(3000) }).await;
    let kept = client.win_and_die(&allow(2000)).await;
    client.pass(Duration::from_millis(2)).await;
    client.win(&allow(1000)).await;
    for closed in [&used_up, &expired] {
        assert_eq!((client.status(closed).await, client.run_status(closed).await), (AttemptStatus::Lost, Status::Dead));
        assert_eq!(client.active_run(&closed.run).await, None);
    }
    assert_eq!((client.status(&kept).await, client.run_status(&kept).await), (AttemptStatus::Running, Status::Running));
}

/// Neighbouring slots, and one slot of two jobs, have nothing to do with each other.
pub async fn slots_and_jobs_are_decided_apart<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    for name in ["one", "two"] {
        let client = client.on(name);
        for ms in [1002, 1001, 1000] {
            let claim = RunClaim { overlap: Overlap::Allow, ..client.scheduled(client.ago(ms)) };
            assert_eq!(client.win(&claim).await.attempt, 1);
        }
        assert_eq!(client.active().await.len(), 3);
    }
    let jobs = [client.on("one").job, client.on("two").job, client.on("three").job];
    let both = answer!("active", client.store.active(&jobs).await).value;
    let all = answer!("active", client.store.active(&[]).await).value;
    assert_eq!((both.len(), all.len()), (6, 6), "of no list at all, the runs of all jobs");
    let epoch = client.on("epoch");
    let claim = RunClaim { limit: Duration::from_secs(u64::from(u32::MAX)), ..epoch.scheduled(Slot::from_ms(0)) };
    assert_eq!(epoch.win(&claim).await.run.slot, Slot::from_ms(0), "the epoch is a slot like any other");
}

/// Every client of the store sees what the others did, and the tokens decide, not the clients.
pub async fn a_second_client_sees_the_same_store<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let here = Client::new(fixture).await;
    let there = here.other(fixture, "there").await;
    let claim = here.scheduled(here.ago(1000));
    let won = here.win(&claim).await;
    assert_eq!(there.win(&claim).await, won, "the same token wins again anywhere");
    let foreign = RunClaim { token: Token::random(), ..claim };
    assert!(matches!(there.claim(&foreign).await, ClaimOutcome::Running { .. }));
    assert_eq!(there.beat(&won, LONG).await, BeatOutcome::Alive);
    assert_eq!(there.end(&won, Ending::Done).await, Status::Done);
    assert_eq!(here.done(&foreign).await, Status::Done);
    there.store.close().await;
    assert_eq!(here.done(&foreign).await, Status::Done, "closing one client leaves the others be");
}

/// Connecting makes what must be there and takes nothing away.
pub async fn connecting_again_keeps_everything<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let won = client.win(&client.scheduled(client.ago(1000))).await;
    client
        .unchanged(async || {
            answer!("connect", client.store.connect().await);
            client.other(fixture, "other").await;
        })
        .await;
    assert_eq!(client.beat(&won, LONG).await, BeatOutcome::Alive);
}
