//! What is forgotten of a job.

use super::{JobState, RunId, id};
use crate::clock::to_ms;
use crate::run::Trim;
use crate::slot::Slot;

impl JobState {
    pub(in crate::backend) fn trim(&mut self, trim: &Trim, now: i64) {
        self.close_over(None, now);
        let kept_since = now.saturating_sub(to_ms(trim.keep));
        let oldest = trim.retention.ttl.map(|ttl| now.saturating_sub(to_ms(ttl)));
        let mut slots: Vec<Slot> = self.attempts.iter().map(|a| a.run.0).collect();
        slots.sort_unstable_by(|a, b| b.cmp(a));
        let cut = crate::history::cut(&slots, trim.retention.size);
        let goes = |slot: Slot, ended: i64| {
            let beyond = cut.is_some_and(|cut| slot < cut) || oldest.is_some_and(|oldest| ended < oldest);
            beyond && slot.ms() < kept_since && ended < kept_since
        };
        let ended = |run: RunId| self.attempts.iter().filter(move |a| a.run == run).filter_map(|a| a.ended_at).max();
        let gone: Vec<RunId> = self
            .runs
            .all()
            .filter(|run| !run.unfinished() && goes(run.key.slot, ended(id(&run.key)).unwrap_or(run.until)))
            .map(|run| id(&run.key))
            .collect();
        for run in gone {
            self.remove(run);
        }
        let mut lasts: Vec<Slot> = self.skips.values().map(|s| s.last).collect();
        lasts.sort_unstable_by(|a, b| b.cmp(a));
        let cut = crate::history::cut(&lasts, trim.retention.size);
        let gone: Vec<Slot> = self
            .skips
            .values()
            .filter(|s| {
                let beyond = cut.is_some_and(|cut| s.last < cut) || oldest.is_some_and(|oldest| s.last.ms() < oldest);
                beyond && s.last.ms() < kept_since
            })
            .map(|s| s.first)
            .collect();
        for first in gone {
            if let Some(skip) = self.skips.remove(&first) {
                self.trim_mark = self.trim_mark.max(Some(skip.last.ms()));
            }
        }
    }

    /// Forgets a run that has ended, and remembers that its slot was decided.
    pub(super) fn remove(&mut self, run: RunId) {
        self.runs.remove(run);
        self.attempts.retain(|attempt| attempt.run != run);
        if let (slot, None) = run {
            self.trim_mark = self.trim_mark.max(Some(slot.ms()));
        }
    }
}
