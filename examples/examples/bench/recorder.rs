//! Which of the owed runs were started, how often and how late, written down by handlers that run at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::report::{number, percentile};
use crate::usage::wall_us;

/// Runs of `jobs` jobs, due each second for `seconds` seconds from a time on that is set later.
pub(crate) struct Recorder {
    jobs: usize,
    seconds: usize,
    first_us: AtomicI64,
    /// µs of lateness plus one; zero is not run.
    late: Vec<AtomicU32>,
    more: AtomicU32,
}

impl Recorder {
    pub(crate) fn new(jobs: usize, seconds: usize) -> Arc<Self> {
        let late = (0..jobs * seconds).map(|_| AtomicU32::new(0)).collect();
        Arc::new(Self { jobs, seconds, first_us: AtomicI64::new(i64::MAX), late, more: AtomicU32::new(0) })
    }

    /// Counts from a whole second that is at least one away.
    pub(crate) fn begin(&self) {
        let second = wall_us().div_euclid(1_000_000) + 2;
        self.first_us.store(second * 1_000_000, Ordering::SeqCst);
    }

    /// A handler has started.
    pub(crate) fn started(&self, job: usize, slot_ms: i64) {
        let now = wall_us();
        let since = slot_ms.saturating_mul(1000).saturating_sub(self.first_us.load(Ordering::Relaxed));
        let Ok(second) = usize::try_from(since.div_euclid(1_000_000)) else { return };
        if second >= self.seconds {
            return;
        }
        let late = u32::try_from(now.saturating_sub(slot_ms * 1000)).unwrap_or(u32::MAX - 1);
        if self.late[second * self.jobs + job].swap(late + 1, Ordering::Relaxed) != 0 {
            self.more.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits for the end of the last second and for what comes late, at most five seconds.
    pub(crate) async fn ended(&self) {
        let seconds = i64::try_from(self.seconds).unwrap_or(0);
        let end = self.first_us.load(Ordering::SeqCst) + seconds * 1_000_000;
        let wait = |us: i64| Duration::from_micros(u64::try_from(us).unwrap_or(0));
        tokio::time::sleep(wait(end - wall_us())).await;
        for _ in 0..50 {
            if self.late.iter().all(|late| late.load(Ordering::Relaxed) != 0) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub(crate) fn figures(&self) -> Value {
        let late = self.late.iter().map(|late| late.load(Ordering::Relaxed)).filter(|late| *late != 0);
        let mut late: Vec<f64> = late.map(|late| f64::from(late - 1) / 1000.0).collect();
        late.sort_by(f64::total_cmp);
        json!({
            "owed": self.late.len(),
            "fired": late.len(),
            "lost": self.late.len() - late.len(),
            "more": self.more.load(Ordering::Relaxed),
            "p50_ms": number(percentile(&late, 0.5)),
            "p99_ms": number(percentile(&late, 0.99)),
            "max_ms": number(percentile(&late, 1.0)),
        })
    }
}
