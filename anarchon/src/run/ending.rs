//! Heartbeats, and the ways in which an attempt ends.

use std::time::Duration;

use super::{AttemptStatus, RunKey, Status};
use crate::option::Retention;
use crate::slot::{InstanceId, Token};

/// "This attempt is alive."
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Beat {
    /// The run.
    pub run: RunKey,
    /// The attempt's token.
    pub token: Token,
    /// How long from now the lease shall last at least.
    pub lease: Duration,
}

impl Beat {
    /// A heartbeat of the attempt that holds `token`.
    #[must_use]
    pub fn new(run: RunKey, token: Token, lease: Duration) -> Self {
        Self { run, token, lease }
    }
}

/// The answer to a [`Beat`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BeatOutcome {
    /// The lease lasts for at least the time that was asked for.
    Alive,
    /// The lease is over, or the run is somebody else's: nothing was revived.
    Lost,
    /// The row is locked by a transaction that finishes the run: neither renewed nor lost.
    Locked,
}

/// How a handler ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// It returned `()` or `Ok`.
    Done,
    /// It returned an error or panicked; the text is at most 4 KiB, without control characters.
    Failed(String),
    /// It ran out of time.
    TimedOut(String),
}

impl Ending {
    /// The attempt's status that this ending leaves.
    #[must_use]
    pub fn status(&self) -> AttemptStatus {
        match self {
            Self::Done => AttemptStatus::Done,
            Self::Failed(_) => AttemptStatus::Failed,
            Self::TimedOut(_) => AttemptStatus::TimedOut,
        }
    }

    /// The error text, if there is one.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Done => None,
            Self::Failed(text) | Self::TimedOut(text) => Some(text),
        }
    }
}

/// "This attempt has ended."
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finish {
    /// The run.
    pub run: RunKey,
    /// The attempt's token.
    pub token: Token,
    /// How it ended.
    pub ending: Ending,
    /// Whether the run ends with it even though attempts are left: a stopped run that must not start twice.
    pub last: bool,
    /// Whether a transaction of the user's own may have marked the attempt done before. If so, nothing is written, and
    /// the answer is that the run is recorded as done. Only sent to stores with a
    /// [`transactional_finish`](crate::Backend::transactional_finish).
    pub unless_done: bool,
    /// Who ran it.
    pub instance: InstanceId,
    /// How much history to keep.
    pub retention: Retention,
    /// The runner's estimate of the store time, for stores without a clock, in ms since the epoch.
    pub now: i64,
}

impl Finish {
    /// The end of the attempt that holds `token`.
    #[must_use]
    pub fn new(run: RunKey, token: Token, ending: Ending, instance: InstanceId, now: i64) -> Self {
        Self { run, token, ending, last: false, unless_done: false, instance, retention: Retention::default(), now }
    }
}

/// The answer to a [`Finish`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FinishOutcome {
    /// Written, now or by an earlier copy of the same packet.
    Recorded {
        /// The run's status afterwards: `done`, `failed`, `timed_out`, or `waiting` for its next attempt.
        run: Status,
        /// How long a waiting run still waits.
        retry_in: Option<Duration>,
    },
    /// The attempt is not the run's current one any more: nothing was written.
    Lost,
}

/// "I give this attempt up."
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Release {
    /// The run.
    pub run: RunKey,
    /// The attempt's token.
    pub token: Token,
    /// Whether the handler never started, so that the attempt is given back (`returned`), or was handed over.
    pub returned: bool,
}

impl Release {
    /// Gives the attempt up after its handler has ended.
    #[must_use]
    pub fn hand_over(run: RunKey, token: Token) -> Self {
        Self { run, token, returned: false }
    }

    /// Gives back an attempt whose handler never started.
    #[must_use]
    pub fn unstarted(run: RunKey, token: Token) -> Self {
        Self { run, token, returned: true }
    }
}

/// The answer to a [`Release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseOutcome {
    /// Given up, now or by an earlier copy of the same packet.
    Released,
    /// The store knows no such attempt: it was never won, or is over.
    Lost,
}
