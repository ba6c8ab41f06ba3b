//! Whether the store answers, and what time it is: trouble and its end, clocks that differ or jump, and freezes.

use std::sync::Arc;
use std::time::Duration;

use super::clocks::Now;
use super::engine::{CLOCK_EVERY, Engine, Reply};
use super::timer::Timer;
use crate::error::{BackendError, BackendErrorKind};
use crate::event::Event;

/// A wake-up that comes later than this after its time means that the process was frozen.
const FROZEN: Duration = Duration::from_secs(1);

impl Engine {
    /// The store answered, with its clock where it has one.
    pub(super) fn store_said(&mut self, store_ms: Option<i64>, sent: Duration, now: Now) {
        if let Some(ms) = store_ms {
            let jumped = self.store_clock.sample(ms, sent, now.boot).unwrap_or(0);
            if jumped.unsigned_abs() > 1_000_000 {
                self.time_jumped(Duration::from_micros(jumped.unsigned_abs()), now);
            }
            self.check_skew(now);
        }
        self.store_answered(now);
    }

    pub(super) fn store_answered(&mut self, now: Now) {
        self.answered = now.boot;
        if let Some(stopping) = &mut self.stopping {
            stopping.silent = false;
        }
        if let Some(since) = self.trouble.take() {
            let after = now.boot.saturating_sub(since);
            tracing::info!(backend = self.store.name(), ?after, "the store answers again");
            self.emit(Event::StoreRecovered { after });
            // A store that answers every other call must not have everything read again each time.
            match self.resynced.map(|last| last + self.settings.watch) {
                Some(next) if next > now.boot => self.time_resync(next),
                _ => self.resync(now),
            }
        }
    }

    fn time_resync(&mut self, at: Duration) {
        if self.resync_at.is_none() {
            self.resync_at = Some(at);
            self.timers.set(at, Timer::Resync);
        }
    }

    pub(super) fn store_failed(&mut self, error: &BackendError, now: Now) {
        self.outlet.vitals.store_failed(error, now);
        // Who refuses one thing answers all the same; it is said where that thing is given up.
        if error.kind() == BackendErrorKind::Refused {
            self.answered = now.boot;
            tracing::debug!(backend = self.store.name(), error = %error, "refused");
            return;
        }
        if self.trouble.is_none() {
            self.trouble = Some(now.boot);
            tracing::warn!(backend = self.store.name(), error = %error, "the store does not answer; calls are repeated");
            self.emit(Event::StoreTrouble { error: error.to_string().into() });
        }
    }

    pub(super) fn check_skew(&mut self, now: Now) {
        let Some(skew) = self.store_clock.skew_ms(now) else { return };
        let bad = skew.abs() > 1000;
        if bad && skew.abs_diff(self.skew_said) > 1000 {
            self.skew_said = skew;
            tracing::warn!(offset_ms = skew, "this machine's clock differs from the store's, whose clock counts");
            self.emit(Event::ClockSkew { offset_ms: skew });
        } else if !bad {
            self.skew_said = 0;
        }
    }

    /// Notices that the process was frozen, or that the wall clock was set.
    pub(super) fn notice_jumps(&mut self, now: Now) {
        let late = now.boot.saturating_sub(self.planned.max(self.last.boot));
        let boot = i64::try_from(now.boot.saturating_sub(self.last.boot).as_millis()).unwrap_or(i64::MAX);
        let wall = now.wall_ms.saturating_sub(self.last.wall_ms);
        let set = wall.saturating_sub(boot);
        if late > FROZEN {
            tracing::warn!(frozen = ?late, "this process was frozen");
            self.time_jumped(late, now);
            self.ask_clock_now(now);
        } else if set.unsigned_abs() > 1000 {
            tracing::warn!(by_ms = set, "this machine's clock was set");
            self.ask_clock_now(now);
            if self.store_clock.skew_ms(now).is_none() {
                self.time_jumped(Duration::from_millis(set.unsigned_abs()), now);
            }
        }
        self.planned = now.boot;
    }

    /// The time by which slots are due has jumped: the next ones are computed anew, and what was missed is looked for.
    fn time_jumped(&mut self, by: Duration, now: Now) {
        self.emit(Event::TimeJump { by });
        self.recompute_due(now);
        self.resync(now);
    }

    pub(super) fn ask_clock(&mut self, now: Now) {
        self.timers.set(now.boot + CLOCK_EVERY, Timer::Clock);
        if self.store_clock.is_stale(now) {
            self.ask_clock_now(now);
        }
    }

    fn ask_clock_now(&mut self, now: Now) {
        if self.clock_asked || self.store_clock.skew_ms(now).is_none() {
            return;
        }
        self.clock_asked = true;
        let store = Arc::clone(&self.store);
        let call = self.with_deadline(async move { store.clock().await });
        self.calls.push(Box::pin(async move { Reply::Clock { sent: now.boot, answer: call.await } }));
    }
}
