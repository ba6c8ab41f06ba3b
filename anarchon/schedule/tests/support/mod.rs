//! What the tests of this crate share: instants as text, short constructors, and a small deterministic random source.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use anarchon_schedule::{Cron, Dialect, Every, Schedule, interval, zone};
use chrono::{DateTime, SecondsFormat};

/// An RFC 3339 text as milliseconds since the epoch.
pub(crate) fn ms(text: &str) -> i64 {
    DateTime::parse_from_rfc3339(text).unwrap_or_else(|e| panic!("{text}: {e}")).timestamp_millis()
}

/// Milliseconds since the epoch as an RFC 3339 text in UTC.
pub(crate) fn utc(ms: i64) -> String {
    DateTime::from_timestamp_millis(ms).unwrap().to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

pub(crate) fn cron(line: &str, zone: &str) -> Schedule {
    Cron::parse(line, Dialect::Unix, zone::parse(zone).unwrap()).unwrap_or_else(|e| panic!("{line}: {e}")).into()
}

pub(crate) fn quartz(line: &str, zone: &str) -> Schedule {
    Cron::parse(line, Dialect::Quartz, zone::parse(zone).unwrap()).unwrap_or_else(|e| panic!("{line}: {e}")).into()
}

pub(crate) fn every(interval: &str, offset: &str) -> Schedule {
    Every::new(interval::parse(interval).unwrap(), interval::parse(offset).unwrap()).unwrap().into()
}

/// The error for a line that must be refused.
pub(crate) fn refused(line: &str) -> String {
    match Cron::parse(line, Dialect::Unix, zone::Tz::UTC) {
        Ok(_) => panic!("{line:?} was accepted"),
        Err(error) => error.to_string(),
    }
}

/// The next `n` slots after an instant. Each is also asked for alone, from the middle of the gap before it, and must
/// be found again by looking back.
pub(crate) fn slots(schedule: &Schedule, after: i64, n: usize) -> Vec<i64> {
    let mut slots = Vec::new();
    let mut at = after;
    while slots.len() < n {
        let Some(slot) = schedule.next(at) else { break };
        assert!(slot > at, "{} after {} is {}", schedule.describe(), utc(at), utc(slot));
        assert_eq!(
            schedule.next(at + (slot - at) / 2),
            Some(slot),
            "{}: asked halfway to {}",
            schedule.describe(),
            utc(slot)
        );
        assert_eq!(schedule.latest(slot), Some(slot), "{}: looking back at {}", schedule.describe(), utc(slot));
        assert_eq!(schedule.next(slot - 1), Some(slot), "{}: asked just before {}", schedule.describe(), utc(slot));
        slots.push(slot);
        at = slot;
    }
    slots
}

/// Asserts the slots that come after an instant, all as RFC 3339 texts.
#[track_caller]
pub(crate) fn expect(schedule: &Schedule, after: &str, expected: &[&str]) {
    let got: Vec<String> = slots(schedule, ms(after), expected.len()).into_iter().map(utc).collect();
    let expected: Vec<String> = expected.iter().map(|text| utc(ms(text))).collect();
    assert_eq!(got, expected, "{} after {after}", schedule.describe());
}

/// All slots in `(from, to]`.
pub(crate) fn between(schedule: &Schedule, from: &str, to: &str) -> Vec<String> {
    let (mut at, to) = (ms(from), ms(to));
    let mut slots = Vec::new();
    while let Some(slot) = schedule.next(at).filter(|slot| *slot <= to) {
        slots.push(utc(slot));
        at = slot;
    }
    slots
}

/// SplitMix64: the same numbers on every run and machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to `n - 1`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(crate) fn within(&mut self, from: u32, to: u32) -> u32 {
        from + self.below(u64::from(to - from) + 1) as u32
    }

    pub(crate) fn instant(&mut self, from: i64, to: i64) -> i64 {
        from + self.below((to - from).unsigned_abs() + 1) as i64
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len() as u64) as usize]
    }
}
