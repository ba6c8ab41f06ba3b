//! The jobs of this instance, and which of their slots run here.

use std::collections::HashMap;
use std::sync::Arc;

use super::timer::JobId;
use crate::job::Job;
use crate::run::{ClaimOutcome, RunKey};
use crate::slot::{JobName, Slot};

/// One job of this instance.
pub(super) struct JobState {
    pub(super) job: Arc<Job>,
    /// The store time at which its schedule identity was first registered.
    pub(super) floor: i64,
    /// The slot before the next one, if it is known.
    pub(super) previous: Option<Slot>,
    /// The latest slot that this instance has handled.
    pub(super) handled: i64,
    /// The next slot in the heap.
    pub(super) next: Option<i64>,
    /// Slots in a row that one run made skip.
    pub(super) skips: Option<Box<(RunKey, u32)>>,
    /// Its slots that run on this instance.
    pub(super) running: Running,
    /// Whether it was paused, as far as the latest answer tells.
    pub(super) paused: bool,
}

/// The slots of one job that run on this instance: hardly ever more than one.
#[derive(Debug, Default)]
pub(super) enum Running {
    #[default]
    None,
    One(Slot),
    Many(Vec<Slot>),
}

impl Running {
    pub(super) fn has(&self, slot: Slot) -> bool {
        match self {
            Self::None => false,
            Self::One(one) => *one == slot,
            Self::Many(many) => many.contains(&slot),
        }
    }

    fn add(&mut self, slot: Slot) {
        match self {
            Self::None => *self = Self::One(slot),
            Self::One(one) => *self = Self::Many(vec![*one, slot]),
            Self::Many(many) => many.push(slot),
        }
    }

    fn remove(&mut self, slot: Slot) {
        match self {
            Self::One(one) if *one == slot => *self = Self::None,
            Self::Many(many) => {
                if let Some(at) = many.iter().position(|one| *one == slot) {
                    many.swap_remove(at);
                }
                if many.is_empty() {
                    *self = Self::None;
                }
            }
            Self::None | Self::One(_) => {}
        }
    }
}

#[derive(Default)]
pub(super) struct Jobs {
    places: Vec<(u32, Option<JobState>)>,
    free: Vec<u32>,
    by_name: HashMap<JobName, JobId>,
    /// What still runs of jobs that were removed: they may be added again before it has ended.
    left: HashMap<JobName, Running>,
    paused: usize,
}

impl Jobs {
    pub(super) fn insert(&mut self, mut state: JobState) -> JobId {
        if let Some(running) = self.left.remove(&state.job.name) {
            state.running = running;
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX)
        });
        let name = state.job.name.clone();
        let place = &mut self.places[index as usize];
        place.1 = Some(state);
        let id = JobId { index, generation: place.0 };
        self.by_name.insert(name, id);
        id
    }

    pub(super) fn get(&self, id: JobId) -> Option<&JobState> {
        self.places.get(id.index as usize).filter(|place| place.0 == id.generation)?.1.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: JobId) -> Option<&mut JobState> {
        self.places.get_mut(id.index as usize).filter(|place| place.0 == id.generation)?.1.as_mut()
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// How many are paused, as far as is known.
    pub(super) fn paused(&self) -> usize {
        self.paused
    }

    /// What the answer to a claim tells about its job's pause.
    pub(super) fn note_pause(&mut self, id: JobId, outcome: &ClaimOutcome) {
        let paused = match outcome {
            ClaimOutcome::Paused { .. } => true,
            ClaimOutcome::Won { .. } | ClaimOutcome::Overlap { .. } => false,
            // Such a run may have been claimed before the pause, or skipped for another reason.
            _ => return,
        };
        let Some(state) = self.get_mut(id) else { return };
        let before = std::mem::replace(&mut state.paused, paused);
        self.paused = self.paused + usize::from(paused) - usize::from(before);
    }

    pub(super) fn find(&self, name: &str) -> Option<JobId> {
        self.by_name.get(name).copied()
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<JobState> {
        let id = self.by_name.remove(name)?;
        let place = self.places.get_mut(id.index as usize)?;
        place.0 = place.0.wrapping_add(1);
        self.free.push(id.index);
        let mut state = place.1.take()?;
        self.paused -= usize::from(state.paused);
        if !matches!(state.running, Running::None) {
            self.left.insert(state.job.name.clone(), std::mem::take(&mut state.running));
        }
        Some(state)
    }

    /// Whether an attempt of this run goes on here, and be it one of a job that was removed.
    pub(super) fn runs_here(&self, run: &RunKey) -> bool {
        let running = match self.find(run.job.as_str()) {
            Some(id) => self.get(id).map(|state| &state.running),
            None => self.left.get(&run.job),
        };
        running.is_some_and(|running| running.has(run.slot))
    }

    /// An attempt of this run begins here. The id is looked at first: names cost more.
    pub(super) fn run_begins(&mut self, id: JobId, run: &RunKey) {
        self.running(id, run).add(run.slot);
    }

    /// It has ended.
    pub(super) fn run_ended(&mut self, id: JobId, run: &RunKey) {
        let running = self.running(id, run);
        running.remove(run.slot);
        if matches!(running, Running::None) && !self.left.is_empty() {
            self.left.remove(&run.job);
        }
    }

    fn running(&mut self, id: JobId, run: &RunKey) -> &mut Running {
        // Added again, it has another id.
        let id = if self.get(id).is_some() { Some(id) } else { self.find(run.job.as_str()) };
        let place = id.and_then(|id| self.places.get_mut(id.index as usize));
        match place.and_then(|place| place.1.as_mut()) {
            Some(state) => &mut state.running,
            None => self.left.entry(run.job.clone()).or_default(),
        }
    }

    /// Every job, in the order of their names: hash order would make two runs of one seed differ.
    pub(super) fn sorted_ids(&self) -> Vec<JobId> {
        let mut named: Vec<(&JobName, JobId)> = self.by_name.iter().map(|(name, id)| (name, *id)).collect();
        named.sort_unstable();
        named.into_iter().map(|(_, id)| id).collect()
    }
}
