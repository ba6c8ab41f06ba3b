//! What users are promised, with real processes on one store: they are killed, frozen and stopped, and their logs must
//! show that each slot was run as often as it should be, and never twice at once.

#![cfg(unix)]
#![allow(clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod blocking;
mod catch_up;
mod crash;
mod deploy;
mod effects;
mod failure;
mod files;
mod freeze;
mod once;
mod outage;
mod overlap;
mod pause;
mod quickstart;
mod stop;
mod ticks;

use std::time::Duration;

/// What a busy machine may add to a time that is promised.
const LOAD: Duration = Duration::from_millis(1500);

/// Asserts that `later` is at most `limit` after `earlier`, or a little more on a busy machine.
#[track_caller]
fn within(limit: Duration, earlier_ns: u64, later_ns: u64) {
    let took = Duration::from_nanos(later_ns.saturating_sub(earlier_ns));
    assert!(took <= limit + LOAD, "it took {took:?} instead of {limit:?} at most");
}

/// A job every second with this work and these other lines.
fn every_second(name: &str, work: &str, more: &str) -> String {
    format!("[[job]]\nname = \"{name}\"\nevery = \"1s\"\nwork = \"{work}\"\n{more}\n")
}

/// A job whose next slot is some seconds away and the one after that an hour later; and that slot.
fn hourly(name: &str, in_ms: i64, work: &str, more: &str) -> (String, i64) {
    const HOUR: i64 = 3_600_000;
    let slot = tests::wall_ms() + in_ms;
    let offset = slot.rem_euclid(HOUR);
    let job =
        format!("[[job]]\nname = \"{name}\"\nevery = \"1h\"\noffset = \"{offset}ms\"\nwork = \"{work}\"\n{more}\n");
    (job, slot)
}

/// Asserts that the processes were ready before the first slot that a test is about.
#[track_caller]
fn in_good_time(slot: i64) {
    assert!(tests::wall_ms() < slot, "this machine is too busy for this test: its processes came up after the slot");
}
