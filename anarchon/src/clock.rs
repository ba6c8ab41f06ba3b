//! The only place that reads local time: the wall clock, and a clock that counts every moment since boot.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;

/// Where the scheduler gets the time from, and how it sleeps. Tests put a manual one in its place.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The wall clock, in ms since the Unix epoch. It may jump.
    fn wall_ms(&self) -> i64;

    /// Time since some fixed point of this machine's run. It never jumps and, on Linux, counts suspended time too.
    fn boot(&self) -> Duration;

    /// Returns when [`boot`](Self::boot) has reached `at`.
    fn sleep_until(&self, at: Duration) -> BoxFuture<'static, ()>;
}

/// The machine's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn wall_ms(&self) -> i64 {
        wall_ms()
    }

    fn boot(&self) -> Duration {
        boot()
    }

    fn sleep_until(&self, at: Duration) -> BoxFuture<'static, ()> {
        let wait = at.saturating_sub(self.boot());
        Box::pin(tokio::time::sleep(wait))
    }
}

fn wall_ms() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => to_ms(since),
        Err(before) => to_ms(before.duration()).saturating_neg(),
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn boot() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn boot() -> Duration {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed()
}

/// Whole milliseconds, as far as an `i64` goes.
pub(crate) fn to_ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// A duration of `ms`, zero when negative.
pub(crate) fn from_ms(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}
