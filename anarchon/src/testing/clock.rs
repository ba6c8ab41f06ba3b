//! A clock that stands still until it is moved.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::clock::{Clock, to_ms};

/// How often other tasks of a single-threaded runtime are let run before they are taken to be idle.
const TURNS: usize = 16;

/// A [`Clock`] that is moved by hand. Clones are one clock.
///
/// On a single-threaded runtime, with `SchedulerBuilder::on_callers_runtime` and a seed, everything that happens is the
/// same each time.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), anarchon::Error> {
/// use std::sync::Arc;
/// use std::time::Duration;
/// use anarchon::testing::ManualClock;
/// use anarchon::{MemoryBackend, Scheduler};
///
/// let clock = ManualClock::new(1_767_225_600_000);
/// let scheduler = Scheduler::builder(MemoryBackend::with_clock(Arc::new(clock.clone())))
///     .clock(Arc::new(clock.clone()))
///     .seed(7)
///     .on_callers_runtime()
///     .start()
///     .await?;
/// scheduler.every("tick", "1h", async || {}).add().await?;
///
/// clock.advance(Duration::from_secs(24 * 3600 + 1)).await;
/// assert_eq!(scheduler.history("tick", 100).await?.len(), 24);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    boot: Duration,
    wall_ms: i64,
    sleepers: BTreeMap<(Duration, u64), Option<Waker>>,
    sequence: u64,
}

impl ManualClock {
    /// A clock whose wall shows `wall_ms` (ms since the Unix epoch), an hour after boot.
    #[must_use]
    pub fn new(wall_ms: i64) -> Self {
        let boot = Duration::from_secs(3600);
        Self(Arc::new(Mutex::new(State { boot, wall_ms, sleepers: BTreeMap::new(), sequence: 0 })))
    }

    /// Moves on by `by`, stopping at each time that somebody sleeps for, until they have done what they do then.
    pub async fn advance(&self, by: Duration) {
        settle().await;
        let end = self.lock().boot + by;
        while let Some(at) = self.next_wake(end) {
            self.move_to(at);
            settle().await;
        }
        self.move_to(end);
        settle().await;
    }

    /// Moves on by `by` at one stroke, as it is for a process that was frozen, or a machine that slept.
    pub async fn freeze(&self, by: Duration) {
        self.freeze_while(by, || ()).await;
    }

    /// The same, and `meanwhile` happens before anybody wakes: answers that arrive during the freeze, say. What it wakes
    /// runs before those who slept.
    pub async fn freeze_while(&self, by: Duration, meanwhile: impl FnOnce()) {
        settle().await;
        let end = {
            let mut state = self.lock();
            let end = state.boot + by;
            state.pass_to(end);
            end
        };
        meanwhile();
        self.move_to(end);
        settle().await;
    }

    /// Sets the wall clock, forwards or back.
    pub async fn set_wall(&self, wall_ms: i64) {
        self.lock().wall_ms = wall_ms;
        settle().await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next time at which somebody wakes, if that is not after `end`.
    pub(super) fn next_wake(&self, end: Duration) -> Option<Duration> {
        self.lock().sleepers.keys().next().map(|(at, _)| *at).filter(|at| *at <= end)
    }

    /// Moves on at one stroke, and lets nobody run.
    pub(super) fn move_to(&self, at: Duration) {
        let mut state = self.lock();
        state.pass_to(at);
        let boot = state.boot;
        for (_, waker) in state.sleepers.range_mut(..=(boot, u64::MAX)) {
            if let Some(waker) = waker.take() {
                waker.wake();
            }
        }
        let later = state.sleepers.split_off(&(boot, u64::MAX));
        state.sleepers = later;
    }
}

impl State {
    fn pass_to(&mut self, at: Duration) {
        let by = at.saturating_sub(self.boot);
        self.boot = self.boot.max(at);
        // Counted in whole milliseconds since boot, so that no fraction is lost on the way.
        self.wall_ms += to_ms(at) - to_ms(at.saturating_sub(by));
    }
}

impl Clock for ManualClock {
    fn wall_ms(&self) -> i64 {
        self.lock().wall_ms
    }

    fn boot(&self) -> Duration {
        self.lock().boot
    }

    fn sleep_until(&self, at: Duration) -> BoxFuture<'static, ()> {
        let mut state = self.lock();
        state.sequence += 1;
        let sequence = state.sequence;
        drop(state);
        Box::pin(Sleep { clock: self.clone(), key: (at, sequence) })
    }
}

/// A clock whose wall shows another time than that of the clock that it follows.
#[derive(Clone, Debug)]
pub(super) struct WrongClock {
    right: ManualClock,
    ahead_ms: Arc<AtomicI64>,
}

impl WrongClock {
    /// Right at first.
    pub(super) fn new(right: ManualClock) -> Self {
        Self { right, ahead_ms: Arc::default() }
    }

    pub(super) fn set_ahead(&self, ms: i64) {
        self.ahead_ms.store(ms, Ordering::Relaxed);
    }
}

impl Clock for WrongClock {
    fn wall_ms(&self) -> i64 {
        self.right.wall_ms() + self.ahead_ms.load(Ordering::Relaxed)
    }

    fn boot(&self) -> Duration {
        self.right.boot()
    }

    fn sleep_until(&self, at: Duration) -> BoxFuture<'static, ()> {
        self.right.sleep_until(at)
    }
}

struct Sleep {
    clock: ManualClock,
    key: (Duration, u64),
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.clock.lock();
        if self.key.0 <= state.boot {
            return Poll::Ready(());
        }
        state.sleepers.insert(self.key, Some(context.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.clock.lock().sleepers.remove(&self.key);
    }
}

/// Lets the other tasks of a single-threaded runtime run until they are idle.
pub(super) async fn settle() {
    for _ in 0..TURNS {
        tokio::task::yield_now().await;
    }
}
