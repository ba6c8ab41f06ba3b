//! Claims, and what the store answers.

use std::sync::Arc;
use std::time::Duration;

use super::{ClaimKind, Reason, RunKey, Status};
use crate::option::{Overlap, Retention};
use crate::slot::{InstanceId, JobName, Slot, Token};

/// "I am running this slot, unless someone already does": the request to a claim-only store.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SlotClaim {
    /// The job.
    pub job: JobName,
    /// The slot.
    pub slot: Slot,
    /// The attempt's token; a claim sent twice carries the same one.
    pub token: Token,
    /// Who asks.
    pub instance: InstanceId,
    /// How late, in all, the slot may be by the store's clock, where the store has one; later is refused.
    pub limit: Duration,
    /// The store time after which this packet must be refused, in ms since the epoch; `i64::MAX` for a store without a clock.
    pub valid_until: i64,
    /// How much history to keep.
    pub retention: Retention,
}

impl SlotClaim {
    /// A claim of `job` at `slot` that never goes stale.
    #[must_use]
    pub fn new(job: JobName, slot: Slot, token: Token, instance: InstanceId) -> Self {
        let limit = Duration::from_secs(60);
        Self { job, slot, token, instance, limit, valid_until: i64::MAX, retention: Retention::default() }
    }
}

/// A claim on a lease backend. What it needs to know of the job travels with it, so the store decides in one step.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RunClaim {
    /// The job.
    pub job: JobName,
    /// The slot.
    pub slot: Slot,
    /// What the claim wants.
    pub kind: ClaimKind,
    /// The attempt's token; a claim sent twice carries the same one.
    pub token: Token,
    /// Who asks.
    pub instance: InstanceId,
    /// The job's schedule identity.
    pub identity: Arc<str>,
    /// The floor this instance was given for that identity, in store ms; the store takes it from here when it has none.
    pub floor: i64,
    /// The slot before this one by the job's own schedule.
    pub previous: Option<Slot>,
    /// How old the slot may be: `max_late` for a scheduled claim, max(`max_late`, `catch_up`) for a catch-up.
    pub limit: Duration,
    /// How long a won lease lasts.
    pub lease: Duration,
    /// What to do while another run of the job is live.
    pub overlap: Overlap,
    /// How many started attempts may end lost, failed or timed out; kept with the run at its first claim.
    pub max_attempts: u32,
    /// The first wait before a failed attempt is started again; kept with the run.
    pub retry_failed: Option<Duration>,
    /// How long after its lease ended a run may still be taken over; kept with the run.
    pub takeover_within: Duration,
    /// The store time after which this packet is refused, in ms since the epoch.
    pub valid_until: i64,
    /// How much history to keep.
    pub retention: Retention,
}

impl RunClaim {
    /// A scheduled claim with the default options that never goes stale; set the fields that differ.
    #[must_use]
    pub fn new(job: JobName, slot: Slot, token: Token, instance: InstanceId) -> Self {
        Self {
            job,
            slot,
            kind: ClaimKind::Scheduled,
            token,
            instance,
            identity: Arc::default(),
            floor: i64::MIN,
            previous: None,
            limit: Duration::from_secs(60),
            lease: Duration::from_secs(15),
            overlap: Overlap::Skip,
            max_attempts: 3,
            retry_failed: None,
            takeover_within: Duration::from_secs(3600),
            valid_until: i64::MAX,
            retention: Retention::default(),
        }
    }

    /// The run this claim is about.
    #[must_use]
    pub fn key(&self) -> RunKey {
        RunKey::scheduled(self.job.clone(), self.slot)
    }

    /// Whether another asks on the same options, as claims of one batch mostly do: whatever may be sent once for both is
    /// the same in them, beside what they say of their slots and schedules.
    pub(crate) fn has_options_of(&self, other: &Self) -> bool {
        let times = |claim: &Self| (claim.limit, claim.lease, claim.takeover_within, claim.valid_until);
        let rules = |claim: &Self| (claim.kind, claim.overlap, claim.max_attempts, claim.retry_failed);
        times(self) == times(other) && rules(self) == rules(other) && self.instance == other.instance
    }
}

/// A manual run to be started here and now.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ManualClaim {
    /// The job.
    pub job: JobName,
    /// The token, which also names the run.
    pub token: Token,
    /// Who asks.
    pub instance: InstanceId,
    /// Refused while another run of the job is live, and counts as one itself.
    pub exclusive: bool,
    /// How long the lease lasts; ignored by claim-only stores.
    pub lease: Duration,
    /// The store time after which this packet is refused, in ms since the epoch.
    pub valid_until: i64,
    /// How much history to keep.
    pub retention: Retention,
    /// The caller's store time, for a store that has no clock of its own, in ms since the epoch.
    pub now: i64,
}

impl ManualClaim {
    /// A manual run that never goes stale and does not mind other runs.
    #[must_use]
    pub fn new(job: JobName, token: Token, instance: InstanceId, now: i64) -> Self {
        Self {
            job,
            token,
            instance,
            exclusive: false,
            lease: Duration::from_secs(15),
            valid_until: i64::MAX,
            retention: Retention::default(),
            now,
        }
    }
}

/// The store's answer to a [`ManualClaim`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ManualOutcome {
    /// It may start.
    Won {
        /// The time the store gave it, in its own clock.
        slot: Slot,
        /// The fence, on stores with leases.
        fence: Option<u64>,
    },
    /// An exclusive one was refused: another run of the job is live.
    Overlap,
    /// The packet came after its `valid_until`, or the run has ended already.
    Late,
}

/// What a claim-only store answers: was this token first?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlotOutcome {
    /// The token was first, or is the first one sent again.
    Won,
    /// Another was first.
    Taken,
    /// The slot lies after the store's clock by this much.
    Early(Duration),
    /// Too old for the store's memory, or for `limit`.
    Late,
    /// The packet came after its `valid_until`.
    Stale,
}

/// Why a claim came too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Lateness {
    /// At or before the floor: it was never owed.
    Floor,
    /// At or before the trim mark: it was decided, and forgotten.
    Trimmed,
    /// Older than the claim's limit by the store's clock.
    TooOld,
    /// The packet came after its `valid_until`; nobody is told.
    Stale,
}

/// The outcome of a claim on a lease backend. Losing is a value and no error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClaimOutcome {
    /// The slot is later than the store's clock: ask again after `wait`, with the same token.
    Early {
        /// How long until the slot.
        wait: Duration,
    },
    /// This token runs the attempt. The same token asked again gets the same answer.
    Won {
        /// The attempt's number, from 1.
        attempt: u32,
        /// Grows with every won claim of the job; `None` on stores without leases.
        fence: Option<u64>,
        /// Why the attempt starts.
        reason: Reason,
        /// The run's `max_attempts`, as stored at its first claim; a run with 1 is never handed over.
        max_attempts: u32,
    },
    /// Decided and over; or taken by a store without leases.
    Done {
        /// The run's status, or that of the attempt whose late packet this was.
        status: Status,
    },
    /// Someone runs it, or it waits for its retry time: become a backup.
    Running {
        /// How long its lease, or its wait, still lasts; zero when a locked row hides it.
        left: Duration,
    },
    /// The job is paused.
    Paused {
        /// Whether the slot was recorded as skipped.
        recorded: bool,
    },
    /// Another run of the job is live.
    Overlap {
        /// That run.
        blocker: RunKey,
        /// How long the blocker's lease still lasts.
        left: Duration,
        /// Whether the slot was recorded as skipped.
        recorded: bool,
    },
    /// A takeover found no run.
    Gone,
    /// Too late to be decided; not recorded.
    Late(Lateness),
}
