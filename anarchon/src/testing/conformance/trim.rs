//! Trimming: what goes, what stays, and that a slot that is forgotten stays decided.

use std::time::Duration;

use super::Fixture;
use super::support::{Client, LONG, SHORT, answer, failed, until};
use crate::backend::{Backend, HistoryByAge, LeaseBackend};
use crate::option::{Overlap, Retention};
use crate::run::{AttemptStatus, BeatOutcome, ClaimOutcome, Ending, Lateness, RunClaim, Status, Trim};
use crate::slot::Token;

fn allow(claim: RunClaim) -> RunClaim {
    RunClaim { overlap: Overlap::Allow, ..claim }
}

impl<B: Backend> Client<B> {
    fn trim_to(&self, size: u32, ttl: Option<Duration>) -> Trim {
        Trim::new(self.job.clone(), Retention::new(size, ttl), Duration::ZERO)
    }

    /// Trims to nothing until the attempt with this token is gone: a store trims in small batches.
    pub(super) async fn trim_until_gone(&self, token: Token) {
        until("the attempt is trimmed", async || {
            self.trim(&self.trim_to(0, None)).await;
            self.attempts().await.iter().all(|a| a.token != token).then_some(())
        })
        .await;
    }
}

impl<B: LeaseBackend> Client<B> {
    /// Runs that are done, one per slot, oldest first.
    async fn done_runs(&self, ago: impl IntoIterator<Item = i64>) -> Vec<super::support::Won> {
        let mut runs = Vec::new();
        for ms in ago {
            let won = self.win(&self.scheduled(self.ago(ms))).await;
            assert_eq!(self.end(&won, Ending::Done).await, Status::Done);
            runs.push(won);
        }
        self.pass(Duration::from_millis(2)).await;
        runs
    }
}

/// Beyond `size`, the oldest attempts go; a slot that is forgotten can't be won again, and newer ones can.
pub async fn the_oldest_attempts_go_and_their_slots_stay_decided<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let runs = client.done_runs((1..=8).rev().map(|n| n * 10_000)).await;
    until("five attempts are trimmed", async || {
        client.trim(&client.trim_to(3, None)).await;
        (client.attempts().await.len() <= 3).then_some(())
    })
    .await;
    for _ in 0..3 {
        client.trim(&client.trim_to(3, None)).await;
    }
    let kept: Vec<_> = client.attempts().await.iter().map(|a| a.token).collect();
    assert_eq!(kept, [runs[7].token, runs[6].token, runs[5].token], "the newest three");
    for ms in [80_000, 50_000, 40_000, 45_000] {
        for claim in [client.scheduled(client.ago(ms)), client.catch_up(client.ago(ms))] {
            assert_eq!(client.claim(&claim).await, ClaimOutcome::Late(Lateness::Trimmed), "{ms} ms ago");
        }
    }
    assert_eq!(client.claim(&client.takeover(client.ago(40_000))).await, ClaimOutcome::Gone);
    assert_eq!(client.done(&client.scheduled(client.ago(30_000))).await, Status::Done, "a kept one is remembered");
    client.win(&client.scheduled(client.ago(35_000))).await;
}

/// Nothing goes while there is no more than `size`.
pub async fn nothing_goes_within_the_size<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    client.done_runs([3000, 2000, 1000]).await;
    client.unchanged(async || client.trim(&client.trim_to(3, None)).await).await;
    client.unchanged(async || client.trim(&client.trim_to(100, Some(Duration::from_secs(3600)))).await).await;
}

/// A slot decided less than `keep` ago stays, whatever the size.
pub async fn what_is_younger_than_keep_stays<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    client.done_runs([5000, 4000]).await;
    client.pause("").await;
    client.claim(&client.scheduled(client.ago(3000))).await;
    let trim = Trim { keep: Duration::from_secs(600), ..client.trim_to(0, None) };
    client.unchanged(async || client.trim(&trim).await).await;
    assert_eq!(client.done(&client.takeover(client.ago(5000))).await, Status::Done);
}

/// An unfinished run never goes, nor does its attempt: live, dead with attempts left, or waiting.
pub async fn an_unfinished_run_never_goes<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let live = client.win(&allow(client.scheduled(client.ago(9000)))).await;
    let dead = client.win_and_die(&allow(client.scheduled(client.ago(8000)))).await;
    let claim = allow(RunClaim { retry_failed: Some(LONG), ..client.scheduled(client.ago(7000)) });
    let waiting = client.win(&claim).await;
    assert_eq!(client.end(&waiting, failed("no")).await, Status::Waiting);
    let done = client.win(&allow(client.scheduled(client.ago(6000)))).await;
    client.end(&done, Ending::Done).await;
    client.pass(Duration::from_millis(2)).await;
    client.trim_until_gone(done.token).await;
    assert_eq!(client.attempts().await.len(), 3);
    assert_eq!(client.beat(&live, LONG).await, BeatOutcome::Alive);
    assert_eq!(client.win(&allow(client.takeover(dead.run.slot))).await.attempt, 2, "below the trim mark, and alive");
    assert!(matches!(client.claim(&client.takeover(waiting.run.slot)).await, ClaimOutcome::Running { .. }));
}

/// A trim closes what is expired or used up, so that it can go one day.
pub async fn a_trim_closes_dead_runs<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let dead = client.win_and_die(&RunClaim { max_attempts: 1, ..client.scheduled(client.ago(1000)) }).await;
    client.trim(&Trim { keep: LONG, ..client.trim_to(100, None) }).await;
    assert_eq!((client.status(&dead).await, client.run_status(&dead).await), (AttemptStatus::Lost, Status::Dead));
    assert_eq!(client.active().await, []);
    client.pass(Duration::from_millis(2)).await;
    client.trim_until_gone(dead.token).await;
}

/// Skip records go beyond `size` too, and their slots stay decided.
pub async fn skip_records_go_and_their_slots_stay_decided<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    client.pause("").await;
    for ms in [9000, 7000, 5000, 3000] {
        assert_eq!(client.claim(&client.scheduled(client.ago(ms))).await, ClaimOutcome::Paused { recorded: true });
    }
    client.resume().await;
    client.pass(Duration::from_millis(2)).await;
    until("two skip records are trimmed", async || {
        client.trim(&client.trim_to(2, None)).await;
        (client.skips().await.len() <= 2).then_some(())
    })
    .await;
    let kept: Vec<_> = client.skips().await.iter().map(|s| s.last).collect();
    assert_eq!(kept, [client.ago(3000), client.ago(5000)]);
    for ms in [9000, 7000] {
        assert_eq!(client.claim(&client.scheduled(client.ago(ms))).await, ClaimOutcome::Late(Lateness::Trimmed));
    }
    assert_eq!(client.done(&client.scheduled(client.ago(5000))).await, Status::Skipped);
}

/// The trim mark is the job's own, and never moves back.
pub async fn trim_marks_are_the_jobs_own_and_only_rise<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let runs = client.done_runs([3000]).await;
    client.trim_until_gone(runs[0].token).await;
    let other = client.on("another job");
    let open = other.win(&allow(other.scheduled(other.ago(5000)))).await;
    let newer = other.win(&allow(other.scheduled(other.ago(2000)))).await;
    other.end(&newer, Ending::Done).await;
    other.pass(Duration::from_millis(2)).await;
    other.trim_until_gone(newer.token).await;
    assert_eq!(other.end(&open, Ending::Done).await, Status::Done);
    other.pass(Duration::from_millis(2)).await;
    other.trim_until_gone(open.token).await;
    assert_eq!(other.claim(&other.scheduled(other.ago(2500))).await, ClaimOutcome::Late(Lateness::Trimmed));
    assert_eq!(client.win(&client.scheduled(client.ago(2500))).await.attempt, 1);
}

/// Several jobs are trimmed in one call, each to its own retention; one that the store does not know is no mistake.
pub async fn several_jobs_are_trimmed_at_once<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let (none, one, all) = (client.on("none"), client.on("one"), client.on("all"));
    for client in [&none, &one, &all] {
        client.done_runs([3000, 2000, 1000]).await;
    }
    let trims =
        [none.trim_to(0, None), client.on("unknown").trim_to(0, None), one.trim_to(1, None), all.trim_to(9, None)];
    until("they are trimmed", async || {
        answer!("trim", client.store.trim(&trims).await);
        (none.attempts().await.is_empty() && one.attempts().await.len() == 1).then_some(())
    })
    .await;
    assert_eq!(all.attempts().await.len(), 3);
    assert_eq!(one.attempts().await[0].run.slot, client.ago(1000));
}

/// A store that trims by age drops what ended longer ago than the retention says, whatever the size.
pub async fn what_is_older_than_its_ttl_goes<F: Fixture<Backend: LeaseBackend + HistoryByAge>>(fixture: &F) {
    let client = Client::new(fixture).await;
    assert!(client.store.history_by_age(), "it says that it trims by age");
    let runs = client.done_runs([9000, 8000]).await;
    client.pass(SHORT).await;
    client.unchanged(async || client.trim(&client.trim_to(100, Some(Duration::from_secs(3600)))).await).await;
    until("the old attempts are trimmed", async || {
        client.trim(&client.trim_to(100, Some(SHORT))).await;
        client.attempts().await.is_empty().then_some(())
    })
    .await;
    assert_eq!(client.claim(&client.scheduled(runs[1].run.slot)).await, ClaimOutcome::Late(Lateness::Trimmed));
    let kept = client.on("kept");
    kept.done_runs([9000]).await;
    kept.pass(SHORT).await;
    let trim = Trim { keep: Duration::from_secs(600), ..kept.trim_to(100, Some(Duration::ZERO)) };
    kept.unchanged(async || kept.trim(&trim).await).await;
}
