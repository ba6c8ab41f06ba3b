//! Unfinished runs, and what history tells.

use std::time::Duration;

use super::{AttemptStatus, Reason, RunKey, SkipReason, Status};
use crate::slot::{InstanceId, JobName, Slot, Token};

/// An unfinished run, as backups see it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ActiveRun {
    /// The run.
    pub run: RunKey,
    /// `running` or `waiting`.
    pub status: Status,
    /// The number of its latest attempt.
    pub attempt: u32,
    /// Who has, or had, the latest attempt.
    pub instance: Option<InstanceId>,
    /// How long its lease (running) or its wait (waiting) still lasts; zero when that is over.
    pub left: Duration,
}

impl ActiveRun {
    /// An unfinished run.
    #[must_use]
    pub fn new(run: RunKey, status: Status, attempt: u32, instance: Option<InstanceId>, left: Duration) -> Self {
        Self { run, status, attempt, instance, left }
    }
}

/// One started (or returned) attempt, as history shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttemptRecord {
    /// The run.
    pub run: RunKey,
    /// The attempt's number, from 1.
    pub attempt: u32,
    /// Its token.
    pub token: Token,
    /// Its fence; `None` on claim-only stores.
    pub fence: Option<u64>,
    /// Why it was started.
    pub reason: Reason,
    /// Who ran it.
    pub instance: String,
    /// Where it stands. `None` on a claim-only store that has no result: the run may still be going, or be lost.
    pub status: Option<AttemptStatus>,
    /// The run's own status; `None` where the store keeps none.
    pub run_status: Option<Status>,
    /// When it was claimed, in store ms since the epoch.
    pub claimed_at: i64,
    /// When it ended, in store ms since the epoch.
    pub ended_at: Option<i64>,
    /// The error text of a failed or timed-out attempt.
    pub error: Option<String>,
    /// A remark, such as `superseded` or `stopped`.
    pub note: Option<String>,
}

impl AttemptRecord {
    /// A record of a claimed attempt; set the fields that are known beyond that.
    #[must_use]
    pub fn new(run: RunKey, attempt: u32, token: Token, instance: impl Into<String>, claimed_at: i64) -> Self {
        Self {
            run,
            attempt,
            token,
            fence: None,
            reason: Reason::Scheduled,
            instance: instance.into(),
            status: None,
            run_status: None,
            claimed_at,
            ended_at: None,
            error: None,
            note: None,
        }
    }
}

/// Slots that were decided without a run, one after the other and for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkipRecord {
    /// The job.
    pub job: JobName,
    /// The first slot.
    pub first: Slot,
    /// The last slot.
    pub last: Slot,
    /// How many slots.
    pub count: u64,
    /// Why.
    pub reason: SkipReason,
}

impl SkipRecord {
    /// A record of skipped slots.
    #[must_use]
    pub fn new(job: JobName, first: Slot, last: Slot, count: u64, reason: SkipReason) -> Self {
        Self { job, first, last, count, reason }
    }
}

/// One line of history.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Record {
    /// An attempt.
    Attempt(AttemptRecord),
    /// Skipped slots.
    Skipped(SkipRecord),
}

impl Record {
    /// The slot it is about; of skipped ones the last.
    #[must_use]
    pub fn slot(&self) -> Slot {
        match self {
            Self::Attempt(a) => a.run.slot,
            Self::Skipped(s) => s.last,
        }
    }

    /// The attempt, if it is one.
    #[must_use]
    pub fn attempt(&self) -> Option<&AttemptRecord> {
        match self {
            Self::Attempt(a) => Some(a),
            Self::Skipped(_) => None,
        }
    }
}
