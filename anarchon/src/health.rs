//! How one instance is doing, as a snapshot.

use std::sync::Arc;
use std::time::Duration;

use crate::error::BackendErrorKind;

/// How an instance was doing when [`Scheduler::health`](crate::Scheduler::health) was called. Taking it asks the store
/// nothing and waits for nobody, so a probe may take it as often as it likes, also after `stop()`.
///
/// Ages are counted back from that moment. Counts are those of the engine's latest turn, which comes at least once a
/// second, and after each answer of the store.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), anarchon::Error> {
/// use anarchon::{EngineState, MemoryBackend, Scheduler};
///
/// let scheduler = Scheduler::builder(MemoryBackend::new()).start().await?;
/// let health = scheduler.health();
/// assert!(health.is_healthy());
/// assert_eq!((health.engine, health.store.trouble), (EngineState::Running, None));
///
/// scheduler.stop().await?;
/// assert_eq!(scheduler.health().engine, EngineState::Stopped);
/// assert!(!scheduler.health().is_healthy());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Health {
    /// What the engine does, which claims slots and renews leases.
    pub engine: EngineState,
    /// How long ago the engine took its latest turn.
    pub last_turn: Duration,
    /// What is known about the store.
    pub store: StoreHealth,
    /// Jobs of this instance.
    pub jobs: usize,
    /// Those of them that were paused when this instance last claimed a slot of theirs. It hears of a pause, or of its
    /// end, no sooner, and not at all while other instances are faster; [`paused`](crate::Scheduler::paused) asks the
    /// store.
    pub paused_jobs: usize,
    /// Runs whose handlers are under way here, manual ones among them.
    pub runs: usize,
    /// Leases that this instance holds, also those of runs whose end it has not told the store yet; 0 on a claim-only
    /// store.
    pub leases: usize,
    /// Slots that are due, and runs to be taken over, that wait for their claim or for its answer.
    pub slots_waiting: usize,
    /// Runs whose handlers have ended, which the store does not know yet.
    pub ends_waiting: usize,
    /// Leases lost since the start: by the store's word, or as they could not be renewed in time.
    pub leases_lost: u64,
    /// Slots missed since the start: events of the kind [`Missed`](crate::Event::Missed).
    pub slots_missed: u64,
    /// How long the store may fail: one lease.
    pub(crate) patience: Duration,
}

impl Health {
    /// Whether this instance does its work: the engine runs, and the store is not in trouble, or has not been for as long
    /// as a lease lasts (`lease`, 15 s unless it is set; the same on claim-only stores), or has answered within that time.
    ///
    /// A store that is not asked anything is in no trouble. One whose latest call failed is, until a call is answered;
    /// a store that has a clock is asked at least once in 30 s. An instance that stops, or has stopped, is not healthy.
    ///
    /// This is for a readiness probe. Starting the process anew heals no store: a liveness probe looks at
    /// [`engine`](Self::engine) alone.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        let store = &self.store;
        self.engine == EngineState::Running
            && (store.trouble.is_none_or(|trouble| trouble < self.patience) || store.last_answer < self.patience)
    }
}

/// What an engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EngineState {
    /// It claims slots.
    Running,
    /// `stop()` was called: it claims nothing and waits for what runs.
    Stopping,
    /// It has stopped.
    Stopped,
    /// It has taken no turn for 5 s: something blocks its thread, or the process gets no time. It may go on. (A process
    /// that was frozen, or whose machine slept, is in this state until its engine has had its first turn since.)
    Stalled,
    /// It has ended without `stop()`: it panicked, or the runtime was shut down on which a test had put it.
    Dead,
}

/// What an instance knows about its store.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StoreHealth {
    /// How long ago it answered a call, if only to refuse it.
    pub last_answer: Duration,
    /// For how long it has been in trouble: how long ago the first call failed since another was answered. `None` when
    /// the latest call was answered.
    pub trouble: Option<Duration>,
    /// The latest error since the start, also when the store has recovered from it.
    pub last_error: Option<StoreError>,
    /// The store's clock minus this machine's wall clock, in ms; `None` where the store tells no time.
    pub clock_offset_ms: Option<i64>,
}

/// An error of the store.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StoreError {
    /// What it said, with the backend's name and without passwords.
    pub text: Arc<str>,
    /// What is known about the effect of the call.
    pub kind: BackendErrorKind,
    /// How long ago that was.
    pub ago: Duration,
}
