//! From a due slot to a claim that may be sent: groups with one wait each, and a sign of life from the user's runtime.

use std::sync::Arc;
use std::time::Duration;

use super::claim::{BATCH, Claim};
use super::clocks::Now;
use super::engine::{COALESCE_AFTER, Engine, Input};
use super::jobs::JobState;
use super::timer::{JobId, Timer};
use crate::clock::{from_ms, to_ms};
use crate::event::Event;
use crate::run::ClaimKind;
use crate::slot::Slot;

/// Into how many groups the due jobs of one instance are split, so that one instance does not win everything.
const GROUPS: usize = 4;
/// Due jobs are shuffled in about so many blocks: neighbours stay together, in memory and in batches, as far as the
/// instances can still share the blocks among them.
const BLOCKS: usize = 64;

/// A slot to be claimed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub(super) job: JobId,
    pub(super) slot: Slot,
    pub(super) kind: ClaimKind,
    pub(super) limit: Duration,
    pub(super) jitter: Duration,
    pub(super) previous: Option<Slot>,
}

/// Due jobs that wait together: out their jitter, then for a sign that the user's runtime is alive.
pub(super) struct Group {
    due: Vec<Due>,
    /// The tick from which on a task of the runtime is a sign of life, once the jitter is over.
    asked: Option<u64>,
}

impl Engine {
    /// Takes what is due from the heap and sets each job's next slot.
    pub(super) fn due_slots(&mut self, now: Now) {
        let store_now = self.store_ms(now);
        let mut due = Vec::new();
        loop {
            let slots = self.due.take(store_now);
            if slots.is_empty() {
                break;
            }
            // Of frequent jobs more than one may be due.
            self.next_slots(slots, store_now, &mut due);
        }
        self.schedule(due, now);
    }

    fn next_slots(&mut self, slots: Vec<(i64, JobId)>, store_now: i64, due: &mut Vec<Due>) {
        let leases = self.leases;
        let mut nexts = Vec::with_capacity(slots.len());
        due.reserve(slots.len());
        for (mut slot, id) in slots {
            let Some(state) = self.jobs.get_mut(id) else { continue };
            let job = &*state.job;
            let mut kind = ClaimKind::Scheduled;
            let mut missed = None;
            if from_ms(store_now.saturating_sub(slot)) > COALESCE_AFTER {
                // By calculation, however many slots lie between.
                let latest = job.schedule.latest(store_now).unwrap_or(slot);
                if latest > slot {
                    missed = job.previous(Slot::from_ms(latest));
                    slot = latest;
                    state.previous = missed;
                }
                kind = ClaimKind::CatchUp;
            }
            let next = job.schedule.next(slot);
            let gap = next.map(|next| from_ms(next.saturating_sub(slot)));
            let slot = Slot::from_ms(slot);
            let previous = if leases { state.previous.or_else(|| job.previous(slot)) } else { None };
            state.previous = Some(slot);
            state.next = next;
            state.handled = state.handled.max(slot.ms());
            nexts.extend(next.map(|next| (next, id)));
            let jitter = job.jitter(gap);
            let limit = match kind {
                ClaimKind::CatchUp if leases => job.max_late.max(job.catch_up(gap)),
                _ => job.max_late,
            };
            // A wait that the job asks for does not make its slot late.
            let limit = limit.saturating_add(jitter);
            if let Some(slot) = missed {
                let job = job.name.clone();
                self.emit(Event::Missed { job, slot });
            }
            due.push(Due { job: id, slot, kind, limit, jitter, previous });
        }
        self.due.extend(nexts);
    }

    /// Splits due jobs into groups by the length of their jitter, and lets each group wait.
    pub(super) fn schedule(&mut self, mut due: Vec<Due>, now: Now) {
        if due.is_empty() {
            return;
        }
        self.drop_stale_groups(now);
        let block = due.len().div_ceil(BLOCKS).min(BATCH);
        self.random.shuffle_blocks(&mut due, block);
        due.sort_by_key(|due| due.jitter);
        for same in due.chunk_by(|a, b| a.jitter == b.jitter) {
            let jitter = same[0].jitter;
            let groups = if jitter.is_zero() { 1 } else { GROUPS };
            for due in same.chunks(same.len().div_ceil(groups)) {
                let id = self.id();
                let wait = self.random.wait(jitter);
                self.groups.insert(id, Group { due: due.to_vec(), asked: None });
                self.timers.set(now.boot + wait, Timer::Group(id));
            }
        }
    }

    pub(super) fn slots_in_groups(&self) -> usize {
        self.groups.values().map(|group| group.due.len()).sum()
    }

    /// Asks the user's runtime for a sign of life, only now: a handler that was started while the group waited may
    /// have blocked it.
    pub(super) fn group_waited(&mut self, id: u64) {
        let tick = self.id();
        if let Some(group) = self.groups.get_mut(&id) {
            group.asked = Some(tick);
            self.probe(tick);
        }
    }

    /// Lets the user's runtime run a task: an instance that could not start a run must not win it.
    fn probe(&mut self, tick: u64) {
        if self.claims.probing.is_some() {
            return; // its answer asks for the next
        }
        self.claims.probing = Some(tick);
        let inputs = self.inputs.clone();
        self.handlers.spawn(async move {
            let _ = inputs.send(Input::Probe(tick));
        });
    }

    /// The user's runtime was alive after this tick.
    pub(super) fn probed(&mut self, tick: u64) {
        self.claims.probing = None;
        let (proven, unproven): (Vec<_>, Vec<_>) = self
            .groups
            .iter()
            .filter_map(|(id, group)| Some((group.asked?, *id)))
            .partition(|(asked, _)| *asked <= tick);
        let mut proven: Vec<u64> = proven.into_iter().map(|(_, id)| id).collect();
        proven.sort_unstable();
        proven.into_iter().for_each(|id| self.group_ready(id));
        while let Some((_, id)) = self.claims.unproven.pop_front_if(|(asked, _)| *asked <= tick) {
            self.claims.queue.extend(self.claims.waiting.remove(&id));
        }
        let group = unproven.into_iter().map(|(asked, _)| asked).max();
        let claim = self.claims.unproven.back().map(|(asked, _)| *asked);
        if let Some(newest) = group.max(claim) {
            self.probe(newest);
        }
    }

    /// A claim is to be sent again: the runtime may have begun to hang since the last time.
    pub(super) fn claim_again(&mut self, id: u64) {
        if self.claims.waiting.contains_key(&id) {
            let tick = self.id();
            self.claims.unproven.push_back((tick, id));
            self.probe(tick);
        }
    }

    /// What waits for a runtime that hangs is dropped once it is too late for it.
    fn drop_stale_groups(&mut self, now: Now) {
        if self.claims.probing.is_none() {
            return;
        }
        let store_now = self.store_ms(now);
        let mut groups = std::mem::take(&mut self.groups);
        let mut stale: Vec<Due> = Vec::new();
        groups.retain(|_, group| {
            stale.extend(group.due.extract_if(.., |due| !self.still_worth(due, store_now)));
            !group.due.is_empty()
        });
        self.groups = groups;
        stale.sort_unstable_by_key(|due| (due.slot, due.job));
        stale.into_iter().for_each(|due| self.too_late(&due));
    }

    fn too_late(&self, due: &Due) {
        let Some(state) = self.jobs.get(due.job) else { return };
        let job = state.job.name.clone();
        tracing::warn!(%job, slot = %due.slot, "missed: the runtime of the handlers runs no tasks");
        self.emit(Event::Missed { job, slot: due.slot });
    }

    /// Whether a slot that waits may still be claimed: in time, or as one to be made up for.
    pub(super) fn still_worth(&self, due: &Due, store_now: i64) -> bool {
        let Some(state) = self.jobs.get(due.job) else { return false };
        let age = store_now.saturating_sub(due.slot.ms());
        due.kind == ClaimKind::Takeover
            || age <= to_ms(due.limit)
            || age <= to_ms(self.made_up_within(state, due.slot))
                && state.job.schedule.latest(store_now) == Some(due.slot.ms())
    }

    /// How old a slot may be to be made up for; zero on a store without leases.
    fn made_up_within(&self, state: &JobState, slot: Slot) -> Duration {
        let gap = state.job.schedule.gap_after(slot.ms());
        if self.leases { state.job.catch_up(gap).saturating_add(state.job.jitter(gap)) } else { Duration::ZERO }
    }

    /// The runtime hung, or the store was away: a slot that is too late by now is made up for like one that was due before
    /// a wake-up, if it still may be.
    pub(super) fn make_up(&self, due: &mut Due, now: Now) {
        if due.kind == ClaimKind::Scheduled
            && !self.in_time(due, None, now)
            && self.still_worth(due, self.store_ms(now))
            && let Some(state) = self.jobs.get(due.job)
        {
            due.kind = ClaimKind::CatchUp;
            due.limit = self.made_up_within(state, due.slot);
        }
    }

    fn group_ready(&mut self, id: u64) {
        if self.stopping.is_some() {
            return;
        }
        let Some(group) = self.groups.remove(&id) else { return };
        let now = self.now();
        let store_now = self.store_ms(now);
        let give_up = now.boot + self.settings.lease;
        self.claims.queue.reserve(group.due.len());
        for mut due in group.due {
            if !self.still_worth(&due, store_now) {
                self.too_late(&due);
                continue;
            }
            self.make_up(&mut due, now);
            let Some(state) = self.jobs.get(due.job) else { continue };
            self.claims.queue.push_back(Claim {
                job: Arc::clone(&state.job),
                due,
                token: self.random.token(),
                tries: 0,
                valid_until: i64::MAX,
                unanswered_until: None,
                alone: false,
                give_up: (due.kind == ClaimKind::Takeover).then_some(give_up),
            });
        }
    }
}
