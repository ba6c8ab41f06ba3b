//! What happens in a scheduler, as a stream of typed events.

use std::sync::Arc;
use std::time::Duration;

use crate::error::BackendErrorKind;
use crate::run::{AttemptStatus, Reason, RunKey, SkipReason, Status};
use crate::slot::{JobName, Slot};

/// Something that happened on this instance. `Scheduler::events` gives a stream of them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A claim was won; the handler starts next.
    Claimed {
        /// The run.
        run: RunKey,
        /// The attempt's number.
        attempt: u32,
        /// Its fence, on stores with leases.
        fence: Option<u64>,
        /// Why it starts.
        reason: Reason,
        /// How long after its slot it was won, by the store's clock; zero for a manual run.
        late: Duration,
    },
    /// Another instance runs, or ran, the slot.
    LostRace {
        /// The run.
        run: RunKey,
        /// Whether this instance now watches its lease.
        backup: bool,
    },
    /// The handler was started.
    Started {
        /// The run.
        run: RunKey,
        /// The attempt's number.
        attempt: u32,
    },
    /// The attempt has ended and the store knows.
    Finished {
        /// The run.
        run: RunKey,
        /// The attempt's number.
        attempt: u32,
        /// How the attempt ended.
        status: AttemptStatus,
        /// The run's status, such as `waiting` for its next attempt.
        run_status: Status,
        /// The error text of one that failed or ran out of time.
        error: Option<Arc<str>>,
        /// How long its handler took, with its blocking work.
        took: Duration,
    },
    /// This instance has lost the lease of a run, or could not renew it in time: the handler is cancelled, and nothing
    /// of it is recorded but a success that comes before another instance takes the run over.
    LeaseLost {
        /// The run.
        run: RunKey,
        /// The attempt's number.
        attempt: u32,
    },
    /// The run was given up while stopping, for another instance to start again.
    HandedOver {
        /// The run.
        run: RunKey,
        /// The attempt's number.
        attempt: u32,
        /// How long its handler took, with its blocking work.
        took: Duration,
    },
    /// A claim was won but not started, and given back.
    Returned {
        /// The run.
        run: RunKey,
    },
    /// A slot was skipped on the record.
    Skipped {
        /// The job.
        job: JobName,
        /// The slot.
        slot: Slot,
        /// Why.
        reason: SkipReason,
        /// The run that stood in the way, of an overlap.
        blocker: Option<RunKey>,
    },
    /// A slot was not run by this instance, and it is too late now. Another instance may have run it.
    Missed {
        /// The job.
        job: JobName,
        /// The slot, the latest one if several were missed together.
        slot: Slot,
    },
    /// A claim was given up without knowing whether it was won. If it was, it is returned.
    Unclear {
        /// The job.
        job: JobName,
        /// The slot.
        slot: Slot,
    },
    /// A job makes slot after slot skip, and has no time-out that would end it.
    LongRun {
        /// The run.
        run: RunKey,
        /// How long it has been going on, as far as this instance knows.
        age: Duration,
    },
    /// A call of the store failed; calls are repeated until it answers again.
    StoreTrouble {
        /// What it said.
        error: Arc<str>,
        /// What is known about the call's effect.
        kind: BackendErrorKind,
    },
    /// The store answers again.
    StoreRecovered {
        /// How long it did not.
        after: Duration,
    },
    /// This machine's clock differs from the store's by more than a second.
    ClockSkew {
        /// The store's clock minus this machine's, in ms.
        offset_ms: i64,
    },
    /// The instance was frozen or a clock jumped: slots in between are coalesced to the latest.
    TimeJump {
        /// By how much.
        by: Duration,
    },
    /// Another instance computes other slots for the job: another schedule, or other time zone data.
    FingerprintMismatch {
        /// The job.
        job: JobName,
        /// This instance's fingerprint.
        ours: Arc<str>,
        /// The other's.
        theirs: Arc<str>,
        /// The other instance.
        instance: Arc<str>,
    },
}
