//! What `health()` tells: the engine writes it down at each turn, and whoever asks reads it without the engine.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::clocks::Now;
use super::engine::Engine;
use crate::clock::Clock;
use crate::error::{BackendError, BackendErrorKind};
use crate::event::Event;
use crate::health::{EngineState, Health, StoreError, StoreHealth};

/// An engine takes a turn once a second. One that has taken none for this long is stuck, or gets no time.
const STALLED: Duration = Duration::from_secs(5);

/// What the engine and users' handles share.
pub(super) struct Vitals {
    clock: Arc<dyn Clock>,
    lease: Duration,
    leases_lost: AtomicU64,
    slots_missed: AtomicU64,
    /// Held for as long as it takes to copy it, so the engine hardly ever waits.
    latest: Mutex<Latest>,
}

/// As of the engine's latest turn; times are since boot.
#[derive(Clone)]
struct Latest {
    engine: EngineState,
    turn: Duration,
    answer: Duration,
    trouble: Option<Duration>,
    error: Option<(Arc<str>, BackendErrorKind, Duration)>,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    jobs: usize,
    paused_jobs: usize,
    pub(super) runs: usize,
    leases: usize,
    slots_waiting: usize,
    ends_waiting: usize,
    pub(super) clock_offset_ms: Option<i64>,
}

/// Counts of runs that looking at all of them at each turn would cost too much.
#[derive(Default)]
pub(super) struct Tally {
    /// Whose handlers have ended.
    pub(super) ended: usize,
    /// Whose leases were said to be lost.
    pub(super) lost: usize,
}

impl Vitals {
    pub(super) fn new(clock: Arc<dyn Clock>, lease: Duration) -> Self {
        let now = clock.boot();
        let (engine, counts) = (EngineState::Running, Counts::default());
        let latest = Latest { engine, turn: now, answer: now, trouble: None, error: None, counts };
        Self { clock, lease, leases_lost: AtomicU64::new(0), slots_missed: AtomicU64::new(0), latest: latest.into() }
    }

    fn latest(&self) -> MutexGuard<'_, Latest> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn health(&self) -> Health {
        let Latest { engine, turn, answer, trouble, error, counts } = self.latest().clone();
        // Read after what it is compared with.
        let now = self.clock.boot();
        let ago = |then| now.saturating_sub(then);
        let engine = match engine {
            EngineState::Running | EngineState::Stopping if ago(turn) >= STALLED => EngineState::Stalled,
            engine => engine,
        };
        let store = StoreHealth {
            last_answer: ago(answer),
            trouble: trouble.map(ago),
            last_error: error.map(|(text, kind, then)| StoreError { text, kind, ago: ago(then) }),
            clock_offset_ms: counts.clock_offset_ms,
        };
        Health {
            engine,
            last_turn: ago(turn),
            store,
            jobs: counts.jobs,
            paused_jobs: counts.paused_jobs,
            runs: counts.runs,
            leases: counts.leases,
            slots_waiting: counts.slots_waiting,
            ends_waiting: counts.ends_waiting,
            leases_lost: self.leases_lost.load(Relaxed),
            slots_missed: self.slots_missed.load(Relaxed),
            patience: self.lease,
        }
    }

    pub(super) fn count(&self, event: &Event) {
        match event {
            Event::LeaseLost { .. } => drop(self.leases_lost.fetch_add(1, Relaxed)),
            Event::Missed { .. } => drop(self.slots_missed.fetch_add(1, Relaxed)),
            _ => {}
        }
    }

    pub(super) fn store_failed(&self, error: &BackendError, now: Now) {
        let mut latest = self.latest();
        // Each answer of one call about many things says the same.
        if !latest.error.as_ref().is_some_and(|(_, kind, then)| *kind == error.kind() && *then == now.boot) {
            latest.error = Some((error.to_string().into(), error.kind(), now.boot));
        }
    }
}

/// Notes the engine's end, however it comes.
pub(super) struct Life(pub(super) Arc<Vitals>);

impl Life {
    pub(super) fn stopped(self) {
        self.0.latest().engine = EngineState::Stopped;
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        let mut latest = self.0.latest();
        if latest.engine != EngineState::Stopped {
            latest.engine = EngineState::Dead;
        }
    }
}

impl Engine {
    /// Writes down what `health()` tells.
    pub(super) fn note_turn(&self, now: Now) {
        let counts = Counts {
            jobs: self.jobs.len(),
            paused_jobs: self.jobs.paused(),
            runs: self.runs.len().saturating_sub(self.tally.ended),
            leases: if self.leases { self.runs.len().saturating_sub(self.tally.lost) } else { 0 },
            slots_waiting: self.slots_in_groups() + self.claims.len(),
            ends_waiting: self.tally.ended,
            clock_offset_ms: self.store_clock.skew_ms(now),
        };
        let mut latest = self.outlet.vitals.latest();
        latest.engine = if self.stopping.is_some() { EngineState::Stopping } else { EngineState::Running };
        latest.turn = now.boot;
        latest.answer = self.answered;
        latest.trouble = self.trouble;
        latest.counts = counts;
    }
}
