//! `stop()`: no new claims; handlers are told, waited for and dropped; only then are their runs handed over.

use std::time::Duration;

use super::clocks::Now;
use super::engine::Engine;
use super::timer::Timer;
use crate::context::CancelReason;
use crate::error::{BackendError, BackendErrorKind};
use crate::slot::JobName;

/// How long a run that must not start twice may still go on.
const LAST_WAIT: Duration = Duration::from_secs(20);
/// How long a handler may block its thread after it was dropped before stop() gives up on it.
const BLOCKED: Duration = Duration::from_secs(30);

/// The part of a call's time that a stopping instance gives a store which has not answered for so long already.
const LAST_CHANCE: u32 = 20;

/// What is known about a stop under way.
#[derive(Debug)]
pub(super) struct Stopping {
    since: Duration,
    /// The store has let one call's time pass without an answer: it is not waited for any more.
    pub(super) silent: bool,
    pub(super) blocked: Vec<JobName>,
    pub(super) over: bool,
}

/// How a stop ended: the jobs whose handlers still block their threads, and how long they were waited for.
pub(super) type Stopped = (Vec<JobName>, Duration);

impl Engine {
    pub(super) fn begin_stop(&mut self, now: Now) {
        if self.stopping.is_some() {
            return;
        }
        tracing::debug!(instance = %self.instance, "stopping");
        self.stopping = Some(Stopping { since: now.boot, silent: false, blocked: Vec::new(), over: false });
        self.due.clear();
        self.groups.clear();
        self.adding.clear();
        self.watched.clear();
        self.stop_manual();
        for claim in self.claims.take_unsent() {
            claim.owed().into_iter().for_each(|(run, token, until)| self.owe_return(run, token, Some(until), now));
        }
        let runs: Vec<u64> = self.runs.keys().copied().collect();
        for id in runs {
            self.stop_run(id, now);
        }
    }

    /// Tells a running handler to stop, now or when its last wait is over.
    pub(super) fn stop_run(&mut self, id: u64, now: Now) {
        let grace = self.settings.stop_grace;
        let Some(run) = self.runs.get(&id).filter(|run| run.last.is_none()) else { return };
        if run.can_hand_over(self.leases) || run.cancelled.is_some() {
            self.cancel(id, CancelReason::Stop, grace, now);
            self.timers.set(now.boot + grace + BLOCKED, Timer::GiveUp(id));
        } else {
            let rest = run.timeout_at.map_or(LAST_WAIT, |at| at.saturating_sub(now.boot).min(LAST_WAIT));
            self.timers.set(now.boot + rest, Timer::StopWait(id));
            self.timers.set(now.boot + rest + grace + BLOCKED, Timer::GiveUp(id));
        }
    }

    pub(super) fn stop_waited(&mut self, id: u64, now: Now) {
        let grace = self.settings.stop_grace;
        self.cancel(id, CancelReason::Stop, grace, now);
    }

    /// A handler still blocks its thread: it is not released, since it may still do things; its lease runs out.
    pub(super) fn give_up_on(&mut self, id: u64, now: Now) {
        let Some(run) = self.runs.get_mut(&id).filter(|run| run.last.is_none()) else { return };
        run.abandoned = true;
        tracing::error!(
            job = %run.key.job, slot = %run.key.slot, attempt = run.win.attempt,
            "the handler blocks its thread and cannot be stopped; its lease is left to run out"
        );
        if let Some(stopping) = &mut self.stopping {
            stopping.blocked.push(run.key.job.clone());
        }
        self.check_stopped(now);
    }

    /// How long a store call may take. A stopping instance waits for a store that does not answer for one call's time
    /// in all, however many calls it makes.
    pub(super) fn call_time(&self) -> Duration {
        let full = self.settings.call_deadline();
        match (&self.stopping, self.trouble) {
            (Some(stopping), Some(_)) => {
                (stopping.since + full).saturating_sub(self.clock.boot()).clamp(full / LAST_CHANCE, full)
            }
            _ => full,
        }
    }

    /// What a stopping instance had to say since `since` was not taken, by a call that was sent at `sent`. Returns
    /// whether to give it up; the lease does the rest.
    pub(super) fn no_time_left(&mut self, error: &BackendError, since: Duration, sent: Duration, now: Now) -> bool {
        let full = self.settings.call_deadline();
        let Some(stopping) = &mut self.stopping else { return false };
        let hung = error.kind() == BackendErrorKind::Unknown && now.boot.saturating_sub(sent) >= full / LAST_CHANCE;
        stopping.silent |= hung && now.boot >= stopping.since + full;
        stopping.silent || now.boot >= stopping.since.max(since) + full
    }

    /// Whether all is said and done.
    pub(super) fn check_stopped(&mut self, _now: Now) {
        let Some(stopping) = &mut self.stopping else { return };
        let runs_over = self.runs.values().all(|run| run.abandoned);
        // Other calls under way (reads, trims, heartbeats of runs that have ended) are dropped with the engine.
        if runs_over && self.manual.is_empty() && self.owed.is_empty() && !self.claims.under_way() {
            stopping.over = true;
        }
    }

    pub(super) fn stopped(&self, now: Now) -> Option<Stopped> {
        let stopping = self.stopping.as_ref().filter(|stopping| stopping.over)?;
        Some((stopping.blocked.clone(), now.boot.saturating_sub(stopping.since)))
    }
}
