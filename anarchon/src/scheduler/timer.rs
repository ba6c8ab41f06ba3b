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
/// Taking one slot from the heap costs about as much as looking at so many entries.
const BY_ONE: usize = 32;

/// The next slot of each job: one entry a job, in ms of the store's clock.
#[derive(Debug, Default)]
pub(super) struct DueSlots(BinaryHeap<Reverse<(i64, JobId)>>);

impl DueSlots {
    pub(super) fn push(&mut self, slot: i64, job: JobId) {
        self.0.push(Reverse((slot, job)));
    }

    /// Puts many back at once: cheaper than each by itself.
    pub(super) fn extend(&mut self, slots: impl IntoIterator<Item = (i64, JobId)>) {
        self.0.extend(slots.into_iter().map(Reverse));
    }

    pub(super) fn first(&self) -> Option<i64> {
        self.0.peek().map(|Reverse((slot, _))| *slot)
    }

    /// Takes all slots that are not after `now`, sorted by slot, then by job.
    pub(super) fn take(&mut self, now: i64) -> Vec<(i64, JobId)> {
        let mut due = Vec::new();
        let few = self.0.len() / BY_ONE;
        while self.first().is_some_and(|slot| slot <= now) {
            if due.len() >= few.max(BY_ONE) {
                // So many are due that one look at all is cheaper than taking each from the top.
                let begun = due.len();
                let mut all = std::mem::take(&mut self.0).into_vec();
                due.extend(all.extract_if(.., |Reverse((slot, _))| *slot <= now).map(|Reverse(entry)| entry));
                due[begun..].sort_unstable();
                self.0 = all.into();
                break;
            }
            due.extend(self.0.pop().map(|Reverse(entry)| entry));
        }
        due
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

    #[test]
    fn what_is_due_is_taken_in_order_whether_it_is_little_or_most() {
        for (all, now) in [(10, 7), (5000, 20), (5000, 4000), (5000, 5000)] {
            let mut due = DueSlots::default();
            let slot = |index: u32| i64::from(index.wrapping_mul(7919) % all);
            due.extend((0..all).map(|index| (slot(index), JobId { index, generation: 0 })));
            let taken = due.take(now);
            let mut expected: Vec<_> = (0..all)
                .map(|index| (slot(index), JobId { index, generation: 0 }))
                .filter(|(slot, _)| *slot <= now)
                .collect();
            expected.sort_unstable();
            assert_eq!(taken, expected, "{all} {now}");
            let left = due.take(i64::MAX);
            assert_eq!(taken.len() + left.len(), all as usize);
            assert!(left.is_sorted() && left.first().is_none_or(|(slot, _)| *slot > now));
        }
    }
}
