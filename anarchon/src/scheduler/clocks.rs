//! The store's time, as this instance reckons it: time since boot plus an offset that the store's answers pin down.

use std::collections::VecDeque;
use std::time::Duration;

/// One reading of both local clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Now {
    pub(super) boot: Duration,
    pub(super) wall_ms: i64,
}

/// Samples older than this are out of date: clocks are slewed by up to 500 ppm.
const SAMPLE_LIFE: Duration = Duration::from_secs(30);
const MOST_SAMPLES: usize = 64;

/// A store's reading lies between these two offsets (store minus boot, in µs).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sample {
    taken: Duration,
    low: i64,
    high: i64,
}

/// The store's clock. A store without one goes by the wall clock.
#[derive(Debug, Default)]
pub(super) struct StoreClock {
    samples: VecDeque<Sample>,
    /// Offset in µs; `None` as long as the store has shown no clock.
    offset: Option<i64>,
}

impl StoreClock {
    /// The store's time in ms, never later than it can be by what the store has said.
    pub(super) fn ms(&self, now: Now) -> i64 {
        match self.offset {
            Some(offset) => micros(now.boot).saturating_add(offset).div_euclid(1000),
            None => now.wall_ms,
        }
    }

    /// The time since boot at which [`ms`](Self::ms) reaches `store_ms`.
    pub(super) fn boot_at(&self, store_ms: i64, now: Now) -> Duration {
        let micros = match self.offset {
            Some(offset) => store_ms.saturating_mul(1000).saturating_sub(offset),
            None => micros(now.boot).saturating_add(store_ms.saturating_sub(now.wall_ms).saturating_mul(1000)),
        };
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }

    /// The store said `store_ms` between the two times. Returns by how much its clock has jumped (µs), if it did.
    pub(super) fn sample(&mut self, store_ms: i64, sent: Duration, received: Duration) -> Option<i64> {
        let store = store_ms.saturating_mul(1000);
        let sample = Sample {
            taken: received,
            low: store.saturating_sub(micros(received)),
            // The reading was cut to whole milliseconds.
            high: store.saturating_add(1000).saturating_sub(micros(sent)),
        };
        // Each answer of one call about many things says the same.
        if self.samples.back() == Some(&sample) {
            return None;
        }
        let before = self.offset;
        self.samples.retain(|s| received.saturating_sub(s.taken) < SAMPLE_LIFE);
        if self.samples.len() >= MOST_SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
        let low = self.samples.iter().map(|s| s.low).max().unwrap_or(sample.low);
        let high = self.samples.iter().map(|s| s.high).min().unwrap_or(sample.high);
        if low > high {
            // They cannot all be right: a clock was set. The newest one is.
            self.samples.retain(|s| s.taken == received);
            self.offset = Some(sample.low);
        } else {
            self.offset = Some(low);
        }
        let moved = self.offset.unwrap_or(0).saturating_sub(before?);
        (low > high).then_some(moved)
    }

    /// The store's clock minus the wall clock, in ms, where the store has one.
    pub(super) fn skew_ms(&self, now: Now) -> Option<i64> {
        self.offset.map(|_| self.ms(now).saturating_sub(now.wall_ms))
    }

    pub(super) fn is_stale(&self, now: Now) -> bool {
        self.offset.is_some() && self.samples.back().is_none_or(|s| now.boot.saturating_sub(s.taken) >= SAMPLE_LIFE)
    }
}

fn micros(boot: Duration) -> i64 {
    i64::try_from(boot.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_estimate_is_never_ahead_of_the_store_and_closes_in_on_it() {
        let mut clock = StoreClock::default();
        // The store's true offset is 5000.4 ms; its readings are cut to whole ms.
        assert_eq!(clock.sample(15_000, at(9_990), at(10_010)), None);
        let now = Now { boot: at(10_010), wall_ms: 0 };
        assert_eq!(clock.ms(now), 15_000);
        clock.sample(15_100, at(10_099), at(10_101));
        let now = Now { boot: at(10_101), wall_ms: 0 };
        assert_eq!(clock.ms(now), 15_100, "a shorter round trip pins it down better");
        assert_eq!(clock.boot_at(15_200, now), at(10_201));
    }

    #[test]
    fn a_store_clock_that_is_set_is_believed_and_reported() {
        let mut clock = StoreClock::default();
        clock.sample(10_000, at(1_000), at(1_001));
        let jump = clock.sample(3_610_000, at(1_500), at(1_501));
        assert!(jump.is_some_and(|by| by > 3_599_000_000), "{jump:?}");
        let back = clock.sample(11_000, at(2_000), at(2_001));
        assert!(back.is_some_and(|by| by < -3_598_000_000), "{back:?}");
        assert_eq!(clock.ms(Now { boot: at(2_001), wall_ms: 0 }), 11_000);
    }

    #[test]
    fn a_store_without_a_clock_goes_by_the_wall() {
        let clock = StoreClock::default();
        let now = Now { boot: at(5), wall_ms: 777 };
        assert_eq!(clock.ms(now), 777);
        assert_eq!(clock.boot_at(877, now), at(105));
        assert_eq!(clock.skew_ms(now), None);
    }
}
