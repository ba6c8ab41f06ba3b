//! The scheduler's own options, with their bounds.

use std::time::Duration;

use crate::error::{Error, Result};

/// No store call may take longer than this, however long the lease.
const LONGEST_CALL: Duration = Duration::from_secs(5);
const SHORTEST_LEASE: Duration = Duration::from_secs(1);
const SHORTEST_MARGIN: Duration = Duration::from_millis(250);

/// Where the engine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    OwnThread,
    #[cfg(feature = "testing")]
    CallersRuntime,
}

#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) lease: Duration,
    /// A third of the lease unless it is set.
    pub(super) heartbeat: Option<Duration>,
    pub(super) watch: Duration,
    pub(super) stop_grace: Duration,
    pub(super) forget_after: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            heartbeat: None,
            watch: Duration::from_secs(2),
            stop_grace: Duration::from_secs(5),
            forget_after: Duration::from_secs(30 * 86_400),
        }
    }
}

impl Settings {
    pub(super) fn checked(self) -> Result<Self> {
        let bad = |option, reason: &str| Err(Error::SchedulerOption { option, reason: reason.to_owned() });
        if self.lease < SHORTEST_LEASE {
            return bad("lease", "must be at least 1s");
        }
        if self.lease > Duration::from_secs(86_400) {
            return bad("lease", "must be at most 1d: a dead runner is noticed only after it");
        }
        match self.heartbeat {
            Some(beat) if beat > self.lease / 3 => {
                return bad("heartbeat", "must be at most a third of `lease`, so that one lost beat costs nothing");
            }
            Some(beat) if beat < Duration::from_millis(50) => return bad("heartbeat", "must be at least 50ms"),
            _ => {}
        }
        if self.watch < Duration::from_millis(50) {
            return bad("watch", "must be at least 50ms");
        }
        if self.forget_after < Duration::from_secs(86_400) * 2 {
            return bad("forget_after", "must be at least 2d: running instances say once a day which jobs they have");
        }
        Ok(self)
    }

    pub(super) fn heartbeat(&self) -> Duration {
        self.heartbeat.unwrap_or(self.lease / 3)
    }

    /// How long a store call may take before its answer counts as lost.
    pub(super) fn call_deadline(&self) -> Duration {
        self.heartbeat().min(LONGEST_CALL)
    }

    /// Self-fencing: handlers are cancelled two margins, and dropped one margin, before their lease can have run out.
    pub(super) fn margin(&self) -> Duration {
        (self.lease / 10).max(SHORTEST_MARGIN)
    }
}
