//! Two heaps hold every wait of an instance: slots by the store's time, everything else by the time since boot.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// A job of this instance. The generation tells it from an earlier job in the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct JobId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

/// Fewer slots than this are not worth tidying up.
const TIDY_ABOVE: usize = 64;

/// The next slot of each job: one entry a job, in ms of the store's clock.
#[derive(Debug, Default)]
pub(super) struct DueSlots(BinaryHeap<Reverse<(i64, JobId)>>);

impl DueSlots {
    pub(super) fn push(&mut self, slot: i64, job: JobId) {
        self.0.push(Reverse((slot, job)));
    }

    pub(super) fn first(&self) -> Option<i64> {
        self.0.peek().map(|Reverse((slot, _))| *slot)
    }

    /// The first slot, if it is not after `now`.
    pub(super) fn pop(&mut self, now: i64) -> Option<(i64, JobId)> {
        if self.first()? > now {
            return None;
        }
        self.0.pop().map(|Reverse(entry)| entry)
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Drops the slots of removed jobs once they are most of it: a job's next slot may be years away.
    pub(super) fn tidy(&mut self, jobs: usize, exists: impl Fn(JobId) -> bool) {
        if self.0.len() > 2 * jobs + TIDY_ABOVE {
            self.0.retain(|Reverse((_, job))| exists(*job));
        }
    }
}

/// What a wait was for. Each is looked at anew when its time has come, so one that is out of date does no harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A group of due jobs has waited out its jitter.
    Group(u64),
    /// A claim is sent again.
    Claim(u64),
    /// Renew the leases.
    Heartbeat,
    /// Renew what the last heartbeat could not.
    Beat,
    /// Some lease may be about to run out unrenewed.
    Fence,
    /// Some run may have used up its time.
    Timeout,
    /// A run that was told to stop has had its grace.
    Drop(u64),
    /// A run that must not be handed over has had its time while stopping.
    StopWait(u64),
    /// A handler still has not ended.
    GiveUp(u64),
    /// Send the ends of attempts that have gathered.
    Finish,
    /// The end of a run is sent again.
    Ending(u64),
    /// Look after the runs of others.
    Watch,
    /// A lease that is watched may be over.
    Takeover,
    /// Return tokens of claims that nobody answered.
    Return,
    /// A manual claim is sent again.
    Manual(u64),
    /// Trim what this instance has added to.
    Trim,
    /// Tell the store which jobs there are.
    Touch,
    /// Compare clocks.
    Clock,
    /// See what others have begun, and what nobody ran, while the store had trouble.
    Resync,
}

/// Waits in time since boot.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(Duration, u64, Timer)>>,
    sequence: u64,
}

impl Timers {
    pub(super) fn set(&mut self, at: Duration, timer: Timer) {
        self.sequence += 1;
        self.heap.push(Reverse((at, self.sequence, timer)));
    }

    pub(super) fn first(&self) -> Option<Duration> {
        self.heap.peek().map(|Reverse((at, _, _))| *at)
    }

    pub(super) fn pop(&mut self, now: Duration) -> Option<Timer> {
        if self.first()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, _, timer))| timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_removed_jobs_do_not_pile_up() {
        let mut due = DueSlots::default();
        for generation in 0..100_000 {
            due.push(i64::MAX, JobId { index: 0, generation });
            due.tidy(1, |job| job.generation == generation);
        }
        assert!(due.0.len() <= 67, "{}", due.0.len());
        assert!(due.0.iter().any(|Reverse((_, job))| job.generation == 99_999));
    }
}
