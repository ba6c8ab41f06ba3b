//! What is said about a run: the requests an instance sends, the store's answers, and the records that history shows.

mod claim;
mod ending;
mod record;
mod register;

use std::fmt;

pub use self::claim::{ClaimOutcome, Lateness, ManualClaim, ManualOutcome, RunClaim, SlotClaim, SlotOutcome};
pub use self::ending::{Beat, BeatOutcome, Ending, Finish, FinishOutcome, Release, ReleaseOutcome};
pub use self::record::{ActiveRun, AttemptRecord, Record, SkipRecord};
pub use self::register::{KnownJob, KnownSchedule, Pause, Registered, Registrant, Registration, Trim};
use crate::slot::{JobName, Slot, Token};

macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name { $($(#[$vmeta])* $variant,)+ }

        impl $name {
            /// The word that stores, logs and tables use.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// Reads the word back; `None` when it is not one of them.
            #[must_use]
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($text => Some(Self::$variant),)+ _ => None }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// The state of a run.
    Status {
        /// An attempt runs, or ran and was given up, so that a backup may start the next one.
        Running = "running",
        /// The last attempt failed; the next one starts once its wait is over (`retry_failed`).
        Waiting = "waiting",
        /// An attempt ended well.
        Done = "done",
        /// The last attempt failed and no other follows.
        Failed = "failed",
        /// The last attempt ran out of time and no other follows.
        TimedOut = "timed_out",
        /// Its runners died, and either no attempt is left or nobody took it over in time.
        Dead = "dead",
        /// The slot was decided without a run: the job was paused, or another run of it was live.
        Skipped = "skipped",
    }
}

words! {
    /// The state of one attempt.
    AttemptStatus {
        /// It runs.
        Running = "running",
        /// It ended well.
        Done = "done",
        /// The handler returned an error or panicked.
        Failed = "failed",
        /// It ran longer than its time-out.
        TimedOut = "timed_out",
        /// Its lease ran out.
        Lost = "lost",
        /// The instance stopped and gave the run up, for another to start it again.
        HandedOver = "handed_over",
        /// Won, but given back before the handler started.
        Returned = "returned",
    }
}

words! {
    /// Why an attempt was started.
    Reason {
        /// Its slot was due.
        Scheduled = "scheduled",
        /// The runner before it died.
        Takeover = "takeover",
        /// The runner before it gave the run up while stopping.
        HandOver = "hand-over",
        /// The attempt before it failed, and `retry_failed` is set.
        Retry = "retry",
        /// The slot was missed while nobody ran, and is made up for.
        CatchUp = "catch-up",
        /// Somebody called `run_now`.
        Manual = "manual",
    }
}

words! {
    /// Why a slot was skipped on the record.
    SkipReason {
        /// Another run of the job was live.
        Overlap = "overlap",
        /// The job was paused.
        Paused = "paused",
    }
}

words! {
    /// What a claim wants.
    ClaimKind {
        /// A slot that fell due while the instance was up.
        Scheduled = "scheduled",
        /// The latest slot that was due before start, wake-up or a clock jump.
        CatchUp = "catch-up",
        /// A run whose lease is over.
        Takeover = "takeover",
    }
}

impl ClaimKind {
    /// Why an attempt was started that is the first of its run.
    pub(crate) const fn first_reason(self) -> Reason {
        match self {
            Self::CatchUp => Reason::CatchUp,
            Self::Scheduled | Self::Takeover => Reason::Scheduled,
        }
    }
}

/// The identity of a run: a job and a slot, or for a manual run its own token.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunKey {
    /// The job.
    pub job: JobName,
    /// The slot; for a manual run the store's time when it was claimed.
    pub slot: Slot,
    /// The token that names a manual run; `None` for the run of a slot.
    pub manual: Option<Token>,
}

impl RunKey {
    /// The run of `job` at `slot`.
    #[must_use]
    pub fn scheduled(job: JobName, slot: Slot) -> Self {
        Self { job, slot, manual: None }
    }

    /// A manual run, named by its token.
    #[must_use]
    pub fn manual(job: JobName, slot: Slot, token: Token) -> Self {
        Self { job, slot, manual: Some(token) }
    }
}

impl fmt::Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.manual {
            None => write!(f, "{} @ {}", self.job, self.slot),
            Some(token) => write!(f, "{} (manual {token})", self.job),
        }
    }
}

/// A store's answer together with its clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed<T> {
    /// The answer.
    pub value: T,
    /// The store's clock when it answered, in ms since the epoch; `None` where it has none.
    pub store_ms: Option<i64>,
}

impl<T> Timed<T> {
    /// An answer given at `store_ms`.
    pub const fn at(value: T, store_ms: i64) -> Self {
        Self { value, store_ms: Some(store_ms) }
    }

    /// The answer of a store without a clock.
    pub const fn clockless(value: T) -> Self {
        Self { value, store_ms: None }
    }
}
