//! The rules of a run, as pure functions: what is stored, the store's time and a request go in, a decision comes out.
//!
//! A store that can call Rust ([`MemoryBackend`](crate::MemoryBackend)) uses them as they are. SQL and scripts state
//! them again in their own words, and the conformance suite holds all of them to one table.
//!
//! # The table
//!
//! One claim of one slot, decided in one atomic step on the store's clock. Before it is looked at, runs of the job whose
//! lease is over are closed if they are expired or used up. Then the first row that fits decides:
//!
#![doc = include_str!("docs/claim_table.md")]
//!
//! # States
//!
//! A run is `running` (an attempt holds it, or was given up and its lease ended), `waiting` (for `retry_failed`), or
//! over: `done`, `failed`, `timed_out`, `dead`. Finish, release and retry-wait clear the run's token, so that no packet of
//! that attempt that arrives later can match; the attempt keeps it, so that a repeated packet is recognised.
//!
//! A heartbeat succeeds while the token matches and the lease is not over. A finish or a release needs the token alone: as
//! long as nobody has taken the run over, the end of an attempt counts even after its lease.

use std::time::Duration;

use crate::clock::{from_ms, to_ms};
use crate::option::Overlap;
use crate::run::{
    AttemptStatus, ClaimKind, ClaimOutcome, Ending, FinishOutcome, Lateness, Reason, RunClaim, RunKey, SkipReason,
    Status,
};
use crate::slot::Token;

/// How many hand-overs and returns one run may see before its ended lease closes it: they cost no attempt, so
/// something has to end a run that is only ever passed on.
pub const MAX_RELEASES: u32 = 20;

/// The longest wait of `retry_failed`, which doubles with each failure.
pub const MAX_RETRY_WAIT: Duration = Duration::from_secs(600);

/// A run as a store keeps it. All times are ms of the store's clock.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StoredRun {
    /// Its identity.
    pub key: RunKey,
    /// Its status.
    pub status: Status,
    /// The number of the latest attempt that was not returned; 0 when the first one was.
    pub attempt: u32,
    /// How many attempts ended lost, failed or timed out.
    pub failures: u32,
    /// How many attempts were handed over or returned.
    pub releases: u32,
    /// The token of the open attempt; cleared by finish, release and retry-wait, so that no earlier packet matches.
    pub token: Option<Token>,
    /// The end of the lease, or of the wait.
    pub until: i64,
    /// How the latest ended attempt ended.
    pub last_ended: Option<AttemptStatus>,
    /// As sent with the first claim.
    pub max_attempts: u32,
    /// As sent with the first claim.
    pub retry_failed: Option<Duration>,
    /// As sent with the first claim.
    pub takeover_within: Duration,
    /// Whether other runs of the job mind it: all but the plain manual ones.
    pub counts: bool,
}

impl StoredRun {
    /// The run that a won first claim makes.
    #[must_use]
    pub fn start(claim: &RunClaim, now: i64) -> Self {
        Self {
            key: claim.key(),
            status: Status::Running,
            attempt: 1,
            failures: 0,
            releases: 0,
            token: Some(claim.token),
            until: later(now, claim.lease),
            last_ended: None,
            max_attempts: claim.max_attempts,
            retry_failed: claim.retry_failed,
            takeover_within: claim.takeover_within,
            counts: true,
        }
    }

    /// A manual run: one attempt, and nobody takes it over.
    #[must_use]
    pub fn start_manual(key: RunKey, token: Token, until: i64, exclusive: bool) -> Self {
        Self {
            key,
            status: Status::Running,
            attempt: 1,
            failures: 0,
            releases: 0,
            token: Some(token),
            until,
            last_ended: None,
            max_attempts: 1,
            retry_failed: None,
            takeover_within: Duration::ZERO,
            counts: exclusive,
        }
    }

    /// Whether an attempt may still run, or follow.
    #[must_use]
    pub fn unfinished(&self) -> bool {
        matches!(self.status, Status::Running | Status::Waiting)
    }

    /// Whether its lease, or its wait, is over.
    #[must_use]
    pub fn over(&self, now: i64) -> bool {
        self.until <= now
    }

    /// Whether it runs under a lease that is not over.
    #[must_use]
    pub fn live(&self, now: i64) -> bool {
        self.status == Status::Running && !self.over(now)
    }

    /// How long its lease or wait still lasts.
    #[must_use]
    pub fn left(&self, now: i64) -> Duration {
        from_ms(self.until.saturating_sub(now))
    }

    fn used_up(&self) -> bool {
        let open = u32::from(self.token.is_some());
        self.failures.saturating_add(open) >= self.max_attempts || self.releases >= MAX_RELEASES
    }

    /// Whether the next step of its job closes it: its lease (or wait) is over, and either that was too long ago or
    /// nothing is left to start it with.
    #[must_use]
    pub fn closes(&self, now: i64) -> bool {
        if !self.unfinished() || !self.over(now) {
            return false;
        }
        let expired = now.saturating_sub(self.until) > to_ms(self.takeover_within);
        self.key.manual.is_some() || expired || self.used_up()
    }

    /// Closes it. Says whether its open attempt is to be closed as lost.
    pub fn close(&mut self) -> bool {
        let lost = self.token.take().is_some();
        self.status = match (self.status, self.last_ended) {
            (Status::Waiting, Some(AttemptStatus::TimedOut)) => Status::TimedOut,
            (Status::Waiting, _) => Status::Failed,
            _ => Status::Dead,
        };
        if lost {
            self.last_ended = Some(AttemptStatus::Lost);
        }
        lost
    }

    /// Starts the next attempt. Says why it starts, and the token of the attempt that is thereby lost.
    pub fn take_over(&mut self, claim: &RunClaim, now: i64) -> (Reason, Option<Token>) {
        let lost = self.token.replace(claim.token);
        let reason = match (self.status, lost) {
            (Status::Waiting, _) => Reason::Retry,
            (_, Some(_)) => Reason::Takeover,
            (_, None) => Reason::HandOver,
        };
        if lost.is_some() {
            self.failures += 1;
            self.last_ended = Some(AttemptStatus::Lost);
        }
        self.attempt += 1;
        self.status = Status::Running;
        self.until = later(now, claim.lease);
        (reason, lost)
    }

    /// Moves the lease forward, never back.
    pub fn renew(&mut self, lease: Duration, now: i64) {
        self.until = self.until.max(later(now, lease));
    }

    /// Ends the open attempt.
    pub fn finish(&mut self, ending: &Ending, last: bool, now: i64) -> FinishOutcome {
        self.token = None;
        self.last_ended = Some(ending.status());
        let over = match ending {
            Ending::Done => Status::Done,
            Ending::Failed(_) => Status::Failed,
            Ending::TimedOut(_) => Status::TimedOut,
        };
        self.status = over;
        self.until = now;
        if over != Status::Done {
            self.failures += 1;
            if let Some(first) = self.retry_failed
                && !last
                && self.failures < self.max_attempts
            {
                self.status = Status::Waiting;
                self.until = later(now, retry_wait(first, self.failures));
            }
        }
        self.finished(now)
    }

    /// What a finish of its latest attempt answers.
    #[must_use]
    pub fn finished(&self, now: i64) -> FinishOutcome {
        let retry_in = (self.status == Status::Waiting).then(|| self.left(now));
        FinishOutcome::Recorded { run: self.status, retry_in }
    }

    /// Gives the open attempt up: the run stays `running`, with its lease ended now.
    pub fn release(&mut self, returned: bool, now: i64) {
        self.token = None;
        self.releases += 1;
        self.until = now;
        if returned {
            self.attempt -= 1;
            self.last_ended = Some(AttemptStatus::Returned);
        } else {
            self.last_ended = Some(AttemptStatus::HandedOver);
        }
    }
}

/// The wait before the attempt that follows `failures` failures: `first`, doubling, at most [`MAX_RETRY_WAIT`].
#[must_use]
pub fn retry_wait(first: Duration, failures: u32) -> Duration {
    let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(MAX_RETRY_WAIT).max(first.min(MAX_RETRY_WAIT))
}

/// The fence of the next won claim: it grows even when a failed-over store has forgotten the last ones.
#[must_use]
pub fn next_fence(last: u64, now: i64) -> u64 {
    last.saturating_add(1).max(u64::try_from(now).unwrap_or(0))
}

/// `now` plus a duration, in ms.
#[must_use]
pub fn later(now: i64, by: Duration) -> i64 {
    now.saturating_add(to_ms(by))
}

/// What a store knows about the job and slot of a claim, after it has closed the runs that [`StoredRun::closes`] names
/// (all but one that the claim's own token still holds).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Facts<'a> {
    /// The run of this slot.
    pub run: Option<&'a StoredRun>,
    /// The status of an ended attempt of this run that had the claim's token.
    pub ended: Option<AttemptStatus>,
    /// Whether the slot lies inside a recorded skip.
    pub skipped: bool,
    /// Whether the job is paused.
    pub paused: bool,
    /// The newest slot that was trimmed.
    pub trim_mark: Option<i64>,
    /// The floor of the claim's schedule identity.
    pub floor: Option<i64>,
    /// Another run of the job, if `others` held one that is running with a live lease; the oldest.
    pub live: Option<&'a StoredRun>,
    /// Another scheduled run of the job that is running with its lease over and not closed; the oldest.
    pub orphaned: Option<&'a StoredRun>,
}

impl Facts<'_> {
    /// Nothing is known.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            run: None,
            ended: None,
            skipped: false,
            paused: false,
            trim_mark: None,
            floor: None,
            live: None,
            orphaned: None,
        }
    }
}

/// What a store does about a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// Nothing is written; this is the answer.
    Answer(ClaimOutcome),
    /// Renew the lease and answer `Won` as before.
    Again,
    /// Start the next attempt of a stored run.
    TakeOver,
    /// Start attempt 1.
    Start,
    /// Record the slot as skipped.
    Skip(SkipReason),
}

/// Decides a claim: the table of the guide's chapter on leases, its rows tried from the top.
#[must_use]
pub fn decide(claim: &RunClaim, facts: &Facts<'_>, now: i64) -> Decision {
    use Decision::{Again, Answer, Skip, Start, TakeOver};
    if now > claim.valid_until {
        return Answer(ClaimOutcome::Late(Lateness::Stale));
    }
    if claim.slot.ms() > now {
        return Answer(ClaimOutcome::Early { wait: from_ms(claim.slot.ms().saturating_sub(now)) });
    }
    let skips = claim.overlap == Overlap::Skip;
    if let Some(run) = facts.run {
        if run.token == Some(claim.token) {
            // A lease that is over is not revived beside a run that was let in since: a takeover, or a manual one.
            return match facts.live {
                Some(blocker) if skips && run.over(now) => Answer(overlap(blocker, now, false)),
                _ => Again,
            };
        }
        if let Some(status) = facts.ended {
            return Answer(ClaimOutcome::Done { status: attempt_as_run(status) });
        }
        if !run.unfinished() {
            return Answer(ClaimOutcome::Done { status: run.status });
        }
        if !run.over(now) {
            return Answer(ClaimOutcome::Running { left: run.left(now) });
        }
        if facts.paused {
            return Answer(ClaimOutcome::Paused { recorded: false });
        }
        if let (true, Some(blocker)) = (skips, facts.live) {
            return Answer(overlap(blocker, now, false));
        }
        return TakeOver;
    }
    if facts.skipped {
        return Answer(ClaimOutcome::Done { status: Status::Skipped });
    }
    if claim.kind == ClaimKind::Takeover {
        return Answer(ClaimOutcome::Gone);
    }
    if let Some(lateness) = late(claim, facts, now) {
        return Answer(ClaimOutcome::Late(lateness));
    }
    let recorded = claim.kind == ClaimKind::Scheduled;
    if facts.paused {
        return if recorded { Skip(SkipReason::Paused) } else { Answer(ClaimOutcome::Paused { recorded }) };
    }
    if let (true, Some(blocker)) = (skips, facts.live.or(facts.orphaned)) {
        return if recorded { Skip(SkipReason::Overlap) } else { Answer(overlap(blocker, now, recorded)) };
    }
    Start
}

/// The answer when another run stands in the way.
#[must_use]
pub fn overlap(blocker: &StoredRun, now: i64, recorded: bool) -> ClaimOutcome {
    ClaimOutcome::Overlap { blocker: blocker.key.clone(), left: blocker.left(now), recorded }
}

fn late(claim: &RunClaim, facts: &Facts<'_>, now: i64) -> Option<Lateness> {
    let slot = claim.slot.ms();
    if facts.trim_mark.is_some_and(|mark| slot <= mark) {
        Some(Lateness::Trimmed)
    } else if slot <= facts.floor.unwrap_or(claim.floor) {
        Some(Lateness::Floor)
    } else if now.saturating_sub(slot) > to_ms(claim.limit) {
        Some(Lateness::TooOld)
    } else {
        None
    }
}

/// The run status that says what became of one attempt.
#[must_use]
pub fn attempt_as_run(status: AttemptStatus) -> Status {
    match status {
        AttemptStatus::Done => Status::Done,
        AttemptStatus::Failed => Status::Failed,
        AttemptStatus::TimedOut => Status::TimedOut,
        AttemptStatus::Lost => Status::Dead,
        AttemptStatus::Running | AttemptStatus::HandedOver | AttemptStatus::Returned => Status::Running,
    }
}

#[cfg(test)]
mod tests;
