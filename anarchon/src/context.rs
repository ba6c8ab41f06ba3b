//! What a handler is told about its run: [`Context`].

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::run::{Reason, RunKey};
use crate::slot::{InstanceId, JobName, Token};

/// Why a handler is asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CancelReason {
    /// The lease ran out or was taken over: another instance may run this slot now. Of this attempt nothing is recorded
    /// any more but a success, and that only as long as no other instance has taken the run over.
    LeaseLost,
    /// The run took longer than its `timeout`.
    Timeout,
    /// The scheduler is stopping; the run is handed over to another instance once the handler has ended.
    Stop,
}

impl fmt::Display for CancelReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LeaseLost => "lease lost",
            Self::Timeout => "time-out",
            Self::Stop => "stop",
        })
    }
}

/// What passes between the engine, the task and the handler of one run, in one allocation.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// Why to stop, as a number; zero is not at all.
    cancel: AtomicU8,
    /// The handler is to be dropped at its next await.
    dropped: AtomicBool,
    /// The time since boot, in ms, from which the handler takes no step more unless its lease is renewed; zero is never.
    fence_at: AtomicU64,
    /// Blocking work under way: the run has not ended before all of it has.
    blocking: AtomicUsize,
    /// What the last of it is to do when nobody awaits its end any more.
    at_end: Mutex<Option<AtEnd>>,
    /// What is known of a transaction of the user's that is to mark the run done, as a number; zero is that there is none.
    finish: AtomicU8,
    changed: Notify,
}

const LEASE_LOST: u8 = 1;
const TIMEOUT: u8 = 2;
const STOP: u8 = 3;

#[cfg_attr(
    not(any(feature = "_sqlx", feature = "testing")),
    allow(dead_code, reason = "no store that is compiled in has a use for it")
)]
const FINISH_CALLED: u8 = 1;
const FINISH_OPEN: u8 = 2;

impl Signals {
    /// Asks the handler to stop.
    pub(crate) fn cancel(&self, reason: CancelReason) {
        let code = match reason {
            CancelReason::LeaseLost => LEASE_LOST,
            CancelReason::Timeout => TIMEOUT,
            CancelReason::Stop => STOP,
        };
        self.cancel.store(code, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// Drops the handler at its next await.
    pub(crate) fn drop_handler(&self) {
        self.dropped.store(true, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// The engine will say no more, and renew no lease: a handler that is still there is dropped.
    pub(crate) fn let_go(&self) {
        let _ = self.cancel.compare_exchange(0, LEASE_LOST, Ordering::SeqCst, Ordering::SeqCst);
        self.drop_handler();
    }

    /// A transaction of the user's is about to mark the run done: from now on it may have the run's row locked.
    #[cfg_attr(
        not(any(feature = "_sqlx", feature = "testing")),
        allow(dead_code, reason = "no store that is compiled in has a use for it")
    )]
    pub(crate) fn finish_begins(&self) {
        self.finish.store(FINISH_OPEN, Ordering::SeqCst);
    }

    /// That transaction cannot mark it any more.
    #[cfg_attr(
        not(any(feature = "_sqlx", feature = "testing")),
        allow(dead_code, reason = "no store that is compiled in has a use for it")
    )]
    pub(crate) fn finish_failed(&self) {
        self.finish.store(FINISH_CALLED, Ordering::SeqCst);
    }

    /// Whether only the store knows if the run is done, since a transaction of the user's was to mark it.
    pub(crate) fn finish_called(&self) -> bool {
        self.finish.load(Ordering::SeqCst) != 0
    }

    /// Whether such a transaction may have the run's row locked.
    pub(crate) fn finish_open(&self) -> bool {
        self.finish.load(Ordering::SeqCst) == FINISH_OPEN
    }

    fn reason(&self) -> Option<CancelReason> {
        match self.cancel.load(Ordering::SeqCst) {
            LEASE_LOST => Some(CancelReason::LeaseLost),
            TIMEOUT => Some(CancelReason::Timeout),
            STOP => Some(CancelReason::Stop),
            _ => None,
        }
    }

    /// Its lease is held until soon after `boot`.
    pub(crate) fn set_fence(&self, boot: Duration) {
        self.fence_at.store(u64::try_from(boot.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// Whether the lease may be over. After a freeze the handler may wake before the engine does, which would tell it.
    pub(crate) fn is_fenced(&self, boot: Duration) -> bool {
        let at = self.fence_at.load(Ordering::SeqCst);
        at != 0 && boot.as_millis() >= u128::from(at)
    }

    pub(crate) fn is_to_be_dropped(&self) -> bool {
        self.dropped.load(Ordering::SeqCst)
    }

    pub(crate) async fn to_be_dropped(&self) {
        self.when(|| self.is_to_be_dropped().then_some(())).await;
    }

    pub(crate) async fn blocking_ended(&self) {
        self.when(|| (self.blocking.load(Ordering::SeqCst) == 0).then_some(())).await;
    }

    /// Does this once no blocking work is under way, be that now.
    pub(crate) fn once_blocking_ended(&self, act: impl FnOnce() + Send + 'static) {
        *self.at_end.lock().unwrap_or_else(PoisonError::into_inner) = Some(AtEnd(Box::new(act)));
        if self.blocking.load(Ordering::SeqCst) == 0 {
            self.act_at_end();
        }
    }

    fn act_at_end(&self) {
        let act = self.at_end.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(AtEnd(act)) = act {
            act();
        }
    }

    async fn when<T>(&self, look: impl Fn() -> Option<T>) -> T {
        loop {
            if let Some(seen) = look() {
                return seen;
            }
            let changed = self.changed.notified();
            // Once more: what changed before `changed` was made does not wake it.
            if let Some(seen) = look() {
                return seen;
            }
            changed.await;
        }
    }
}

struct AtEnd(Box<dyn FnOnce() + Send>);

impl fmt::Debug for AtEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AtEnd")
    }
}

/// Blocking work under way.
struct BlockingGuard(Context);

impl BlockingGuard {
    fn new(context: &Context) -> Self {
        context.0.signals.blocking.fetch_add(1, Ordering::SeqCst);
        Self(context.clone())
    }
}

impl Drop for BlockingGuard {
    fn drop(&mut self) {
        let signals = &self.0.0.signals;
        if signals.blocking.fetch_sub(1, Ordering::SeqCst) == 1 {
            signals.act_at_end();
        }
        signals.changed.notify_waiters();
    }
}

#[derive(Debug)]
pub(crate) struct ContextParts {
    pub(crate) run: RunKey,
    pub(crate) attempt: u32,
    pub(crate) token: Token,
    pub(crate) fence: Option<u64>,
    pub(crate) reason: Reason,
    pub(crate) instance: InstanceId,
    pub(crate) deadline: Option<DateTime<Utc>>,
    pub(crate) signals: Signals,
}

/// What a handler is told about its run, and how it learns that it should stop. Cheap to clone.
///
/// ```
/// use anarchon::Context;
///
/// #[anarchon::job(every = "1h")]
/// async fn export(ctx: Context) -> Result<(), std::io::Error> {
///     for page in 0..100 {
///         if ctx.cancel_reason().is_some() {
///             break; // lease lost, time-out or stop: leave things so that the next attempt can start again
///         }
///         let _ = (page, ctx.slot(), ctx.attempt());
///     }
///     Ok(())
/// }
/// # fn main() {}
/// ```
#[derive(Clone, Debug)]
pub struct Context(pub(crate) Arc<ContextParts>);

impl Context {
    /// The job's name.
    #[must_use]
    pub fn job(&self) -> &JobName {
        &self.0.run.job
    }

    /// The scheduled time this run is for; of a manual run the time when it was claimed.
    #[must_use]
    pub fn slot(&self) -> DateTime<Utc> {
        self.0.run.slot.to_datetime()
    }

    /// The scheduled time in milliseconds since the Unix epoch: the key to make writes repeatable with.
    #[must_use]
    pub fn slot_ms(&self) -> i64 {
        self.0.run.slot.ms()
    }

    /// The number of this attempt, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.0.attempt
    }

    /// The token of this attempt, unlike that of any other.
    #[must_use]
    pub fn token(&self) -> Token {
        self.0.token
    }

    /// A number that grows with every won claim of the job. Store it with what you write elsewhere and refuse a
    /// smaller one, and a runner that froze and woke too late can do no harm. `None` on claim-only stores.
    #[must_use]
    pub fn fence(&self) -> Option<u64> {
        self.0.fence
    }

    /// Why this attempt was started.
    #[must_use]
    pub fn reason(&self) -> Reason {
        self.0.reason
    }

    /// The instance that runs it.
    #[must_use]
    pub fn instance_id(&self) -> &InstanceId {
        &self.0.instance
    }

    /// When the time-out will cancel this run, if the job has one; by the clock that the scheduler goes by.
    #[must_use]
    pub fn deadline(&self) -> Option<DateTime<Utc>> {
        self.0.deadline
    }

    /// Returns once the handler should stop, with the reason. After that it has `stop_grace` (on a time-out or a
    /// stop) before it is dropped at its next await; on a lost lease less.
    pub async fn cancelled(&self) -> CancelReason {
        let signals = &self.0.signals;
        signals.when(|| signals.reason()).await
    }

    /// Why the handler should stop, if it should.
    #[must_use]
    pub fn cancel_reason(&self) -> Option<CancelReason> {
        self.0.signals.reason()
    }

    /// Runs blocking work on tokio's blocking threads as part of this run: the lease is kept, and `stop()` waits, until
    /// it has ended. Work that is spawned in any other way is not covered by the promise that a slot never runs
    /// twice at once.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn spawn_blocking<F, R>(&self, work: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        let guard = BlockingGuard::new(self);
        tokio::task::spawn_blocking(move || {
            let result = work();
            drop(guard);
            result
        })
    }
}

/// A future that a handler returned, boxed.
pub(crate) type HandlerFuture = std::pin::Pin<Box<dyn Future<Output = crate::extract::HandlerResult> + Send>>;
