//! Runs that are finished inside a transaction of the user's own.

use std::sync::Arc;
use std::time::Duration;

use super::Transactions;
use super::support::{Client, LONG, Won, failed, until};
use crate::backend::sql::{Finish, FinishError};
use crate::backend::{AnyStrength, LeaseBackend as _, Leases};
use crate::option::Overlap;
use crate::run::{AttemptStatus, Beat, BeatOutcome, ClaimOutcome, Ending, FinishOutcome, RunClaim, Status, Trim};
use crate::slot::Token;

/// What the handler of a won attempt is given.
async fn finish_of<F: Transactions>(fixture: &F, won: &Won) -> Finish<F::Db> {
    let store = AnyStrength::<Leases>::erase(fixture.backend().await);
    store.connect().await.expect("the store can be reached");
    Finish::of_attempt(won.run.clone(), won.token, won.instance.clone(), Arc::clone(&store))
}

/// Marks an attempt done in a transaction of its own, and commits that.
async fn commit<F: Transactions>(fixture: &F, won: &Won) -> Result<(), FinishError> {
    let finish = finish_of(fixture, won).await;
    let mut transaction = fixture.begin().await;
    match finish.commit_with(&mut transaction).await {
        Ok(()) => transaction.commit().await.expect("the transaction can be committed"),
        Err(error) => {
            transaction.rollback().await.expect("the transaction can be rolled back");
            return Err(error);
        }
    }
    Ok(())
}

fn lost(outcome: &Result<(), FinishError>) -> bool {
    matches!(outcome, Err(FinishError::Lost { .. }))
}

fn already_done(outcome: &Result<(), FinishError>) -> bool {
    matches!(outcome, Err(FinishError::AlreadyDone { .. }))
}

/// Before the commit nobody sees anything, and after it everybody the same.
pub async fn a_commit_makes_the_run_done<F: Transactions>(fixture: &F) {
    let client = Client::new(fixture).await;
    let won = client.win(&client.scheduled(client.ago(1000))).await;
    let finish = finish_of(fixture, &won).await;
    let mut transaction = fixture.begin().await;
    finish.commit_with(&mut transaction).await.expect("it is ours");
    assert_eq!(client.status(&won).await, AttemptStatus::Running);
    transaction.commit().await.expect("a commit");
    assert_eq!((client.status(&won).await, client.run_status(&won).await), (AttemptStatus::Done, Status::Done));
    assert_eq!(client.active().await, []);
    assert_eq!(client.beat(&won, LONG).await, BeatOutcome::Lost);
    assert_eq!(client.done(&client.takeover(won.run.slot)).await, Status::Done);
}

/// A rollback takes the end back, and the same attempt can try again.
pub async fn a_rollback_leaves_the_run_running<F: Transactions>(fixture: &F) {
    let client = Client::new(fixture).await;
    let won = client.win(&client.scheduled(client.ago(1000))).await;
    let finish = finish_of(fixture, &won).await;
    for explicitly in [true, false] {
        let mut transaction = fixture.begin().await;
        finish.commit_with(&mut transaction).await.expect("it is ours");
        match explicitly {
            true => transaction.rollback().await.expect("a rollback"),
            false => drop(transaction),
        }
        // A transaction that is dropped is rolled back soon after.
        until("the row is free", async || (client.beat(&won, LONG).await == BeatOutcome::Alive).then_some(())).await;
        assert_eq!(client.status(&won).await, AttemptStatus::Running);
    }
    commit(fixture, &won).await.expect("it is still ours");
    assert_eq!(client.run_status(&won).await, Status::Done);
}

/// The record of such an attempt is that of any other that went well.
pub async fn a_committed_end_is_told_like_any_other<F: Transactions>(fixture: &F) {
    let client = Client::new(fixture).await;
    let plain = client.win(&client.scheduled(client.ago(2000))).await;
    client.end(&plain, Ending::Done).await;
    let won = client.win(&client.scheduled(client.ago(1000))).await;
    commit(fixture, &won).await.expect("it is ours");
    let (plain, mut record) = (client.attempt(plain.token).await, client.attempt(won.token).await);
    assert!(record.ended_at >= Some(record.claimed_at) && record.fence > plain.fence);
    record.run.clone_from(&plain.run);
    (record.token, record.fence) = (plain.token, plain.fence);
    (record.claimed_at, record.ended_at) = (plain.claimed_at, plain.ended_at);
    assert_eq!(record, plain);
}

/// A later attempt of a run that failed before can be committed too.
pub async fn a_retried_run_can_be_committed<F: Transactions>(fixture: &F) {
    let client = Client::new(fixture).await;
    let retry_failed = Some(Duration::from_millis(1));
    let first = client.win(&RunClaim { retry_failed, ..client.scheduled(client.ago(1000)) }).await;
    assert_eq!(client.end(&first, failed("no")).await, Status::Waiting);
    client.until_over(&first.run).await;
    let second = client.win(&client.takeover(first.run.slot)).await;
    assert!(lost(&commit(fixture, &first).await));
    commit(fixture, &second).await.expect("it is ours");
    assert_eq!(
        (client.status(&first).await, client.status(&second).await),
        (AttemptStatus::Failed, AttemptStatus::Done)
    );
    assert_eq!(client.run_status(&second).await, Status::Done);
}

/// A runner whose run was taken over, or closed, is told so, and has written nothing.
pub async fn a_runner_that_lost_its_run_is_refused<F: Transactions>(fixture: &F) {
    let client = Client::new(fixture).await;
    let frozen = client.win_and_die(&client.scheduled(client.ago(2000))).await;
    let other = client.other(fixture, "other").await;
    let next = other.win(&other.takeover(frozen.run.slot)).await;
    client.unchanged(async || assert!(lost(&commit(fixture, &frozen).await))).await;
    commit(fixture, &next).await.expect("it is the other's");
    client.unchanged(async || assert!(lost(&commit(fixture, &frozen).await))).await;

    let dead = client.win_and_die(&RunClaim { max_attempts: 1, ..client.scheduled(client.ago(1000)) }).await;
    assert_eq!(client.done(&client.takeover(dead.run.slot)).await, Status::Dead);
    client.unchanged(async || assert!(lost(&commit(fixture, &dead).await))).await;
}

/// As with every other end, a lease that is over does no harm as long as nobody has taken the run over.
pub async fn a_lease_that_is_over_and_was_not_taken_over_is_no_hindrance<F: Transactions>(fixture: &F) {
    let client = Client::new(fixture).await;
    let won = client.win_and_die(&client.scheduled(client.ago(1000))).await;
    commit(fixture, &won).await.expect("nobody else has it");
    assert_eq!(client.run_status(&won).await, Status::Done);
}

/// An attempt that was given up, handed over or ended otherwise can't be committed, nor can one by a token that is none.
pub async fn what_is_not_open_cannot_be_committed<F: Transactions>(fixture: &F) {
    let client = Client::new(fixture).await;
    let claim = |ms| RunClaim { overlap: Overlap::Allow, ..client.scheduled(client.ago(ms)) };
    let [handed_over, given_back, bad, open] = [
        client.win(&claim(4000)).await,
        client.win(&claim(3000)).await,
        client.win(&claim(2000)).await,
        client.win(&claim(1000)).await,
    ];
    client.hand_over(&handed_over).await;
    client.give_back(&given_back).await;
    client.end(&bad, failed("no")).await;
    let foreign = Won { token: Token::random(), ..open.clone() };
    let mixed = Won { run: open.run.clone(), ..handed_over.clone() };
    for won in [handed_over, given_back, bad, foreign, mixed] {
        client.unchanged(async || assert!(lost(&commit(fixture, &won).await), "{won:?}")).await;
    }
    commit(fixture, &open).await.expect("this one is open");
}

/// Whoever marks a run twice, in one transaction or in two, is told, since what was written before would be twice too.
pub async fn a_second_call_is_refused<F: Transactions>(fixture: &F) {
    let client = Client::new(fixture).await;
    let won = client.win(&client.scheduled(client.ago(1000))).await;
    let finish = finish_of(fixture, &won).await;
    let mut transaction = fixture.begin().await;
    finish.commit_with(&mut transaction).await.expect("it is ours");
    assert!(already_done(&finish.commit_with(&mut transaction).await));
    transaction.commit().await.expect("a commit");
    client.unchanged(async || assert!(already_done(&commit(fixture, &won).await))).await;

    let usual = client.win(&RunClaim { overlap: Overlap::Allow, ..client.scheduled(client.ago(500)) }).await;
    client.end(&usual, Ending::Done).await;
    assert!(already_done(&commit(fixture, &usual).await), "ended as usual meanwhile");
}

/// An end that only counts unless the attempt is done is answered by what is.
pub async fn an_end_unless_done_finds_what_was_committed<F: Transactions>(fixture: &F) {
    let client = Client::new(fixture).await;
    let won = client.win(&client.scheduled(client.ago(2000))).await;
    commit(fixture, &won).await.expect("it is ours");
    let mut finish = client.finish_of(&won.run, won.token, failed("not committed"));
    assert_eq!(client.send_finish(&finish).await, FinishOutcome::Lost);
    finish.unless_done = true;
    let done = FinishOutcome::Recorded { run: Status::Done, retry_in: None };
    client.unchanged(async || assert_eq!(client.send_finish(&finish).await, done)).await;

    let forgotten = client.win(&client.scheduled(client.ago(1000))).await;
    let mut finish = client.finish_of(&forgotten.run, forgotten.token, failed("not committed"));
    finish.unless_done = true;
    for _ in 0..2 {
        let failed = FinishOutcome::Recorded { run: Status::Failed, retry_in: None };
        assert_eq!(client.send_finish(&finish).await, failed);
    }
    assert!(lost(&commit(fixture, &forgotten).await));
}

/// So can a manual run.
pub async fn a_manual_run_can_be_committed<F: Transactions>(fixture: &F) {
    let client = Client::new(fixture).await;
    let claim = client.manual();
    let (run, fence) = client.win_manual(&claim).await;
    let slot = client.win(&client.scheduled(client.ago(1000))).await;
    let won = Won { run, token: claim.token, fence: fence.unwrap_or_default(), ..slot.clone() };
    commit(fixture, &won).await.expect("it is ours");
    assert_eq!(client.status(&won).await, AttemptStatus::Done);
    assert_eq!(client.status(&slot).await, AttemptStatus::Running, "no other run of the job is touched");
}

/// Either the transaction or the takeover, and never both.
pub async fn a_late_commit_and_a_takeover_exclude_each_other<F: Transactions>(fixture: &F) {
    let client = Client::new(fixture).await;
    let other = client.other(fixture, "other").await;
    for ms in 1..=20 {
        let won = client.win_and_die(&client.scheduled(client.ago(100_000 - ms * 1000))).await;
        let claim = other.takeover(won.run.slot);
        let (committed, claimed) = tokio::join!(commit(fixture, &won), other.claim(&claim));
        match claimed {
            ClaimOutcome::Won { .. } => {
                assert!(lost(&committed), "{committed:?}");
                assert_eq!(client.status(&won).await, AttemptStatus::Lost);
                other.finish_with(&won.run, claim.token, Ending::Done).await;
            }
            // A row that is locked counts as alive.
            ClaimOutcome::Done { status: Status::Done } | ClaimOutcome::Running { .. } => {
                committed.expect("nobody else has it");
                assert_eq!(client.status(&won).await, AttemptStatus::Done);
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Where a transaction locks rows, and not the whole database, other runs are renewed while it is open.
pub async fn an_open_transaction_holds_up_no_beat<F: Transactions>(fixture: &F) {
    if !F::LOCKS_ROWS {
        return;
    }
    let client = Client::new(fixture).await;
    let claim = |ms| RunClaim { overlap: Overlap::Allow, ..client.scheduled(client.ago(ms)) };
    let (locked, free) = (client.win(&claim(2000)).await, client.win(&claim(1000)).await);
    let finish = finish_of(fixture, &locked).await;
    let mut transaction = fixture.begin().await;
    finish.commit_with(&mut transaction).await.expect("it is ours");
    assert_eq!(client.beat(&locked, LONG).await, BeatOutcome::Locked);
    let beats = [&locked, &free].map(|won| Beat::new(won.run.clone(), won.token, LONG));
    let answers = client.store.heartbeat_many(&beats).await.into_iter();
    let answers: Vec<BeatOutcome> = answers.map(|answer| answer.expect("a beat waits for no row").value).collect();
    assert_eq!(answers, [BeatOutcome::Locked, BeatOutcome::Alive]);
    client.end(&free, Ending::Done).await;
    transaction.commit().await.expect("a commit");
    assert_eq!(client.status(&locked).await, AttemptStatus::Done);
}

/// Nor do claims and trims of the job wait, and the run counts as alive though its lease is over.
pub async fn an_open_transaction_holds_up_no_claim<F: Transactions>(fixture: &F) {
    if !F::LOCKS_ROWS {
        return;
    }
    let client = Client::new(fixture).await;
    let claim = |ms| RunClaim { overlap: Overlap::Allow, ..client.scheduled(client.ago(ms)) };
    let locked = client.win_and_die(&claim(2000)).await;
    let finish = finish_of(fixture, &locked).await;
    let mut transaction = fixture.begin().await;
    finish.commit_with(&mut transaction).await.expect("nobody else has it");
    let free = client.win(&claim(1000)).await;
    let takeover = RunClaim { overlap: Overlap::Allow, ..client.takeover(locked.run.slot) };
    let asked = client.claim(&takeover).await;
    assert!(matches!(asked, ClaimOutcome::Running { .. }), "{asked:?}");
    client.end(&free, Ending::Done).await;
    client.trim(&Trim::new(client.job.clone(), crate::option::Retention::new(1, None), Duration::ZERO)).await;
    transaction.commit().await.expect("a commit");
    assert_eq!(client.status(&locked).await, AttemptStatus::Done);
}

/// A transaction whose isolation is stricter than it should be is refused, where there is such a thing.
pub async fn a_stricter_isolation_is_refused<F: Transactions>(fixture: &F) {
    let client = Client::new(fixture).await;
    let won = client.win(&client.scheduled(client.ago(1000))).await;
    let finish = finish_of(fixture, &won).await;
    if let Some(mut transaction) = fixture.begin_stricter().await {
        let refused = finish.commit_with(&mut transaction).await;
        assert!(matches!(refused, Err(FinishError::Isolation { .. })), "{refused:?}");
        transaction.rollback().await.expect("a rollback");
        assert_eq!(client.beat(&won, LONG).await, BeatOutcome::Alive);
    }
    commit(fixture, &won).await.expect("it is ours");
}
