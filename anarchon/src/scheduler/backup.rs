//! Runs of other instances that this one may have to take over: one batched read per instance, and lease ends that are
//! timed, not polled.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::clocks::Now;
use super::due::Due;
use super::engine::{Engine, Reply};
use super::timer::Timer;
use crate::error::BackendError;
use crate::run::{ActiveRun, ClaimKind, RunKey, Timed};
use crate::slot::JobName;

/// Backups spread their takeovers over this much time, so that not always the fastest wins.
const SPREAD: Duration = Duration::from_millis(100);

/// A run that somebody else has.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    /// When, since boot, its lease or wait is over as far as is known; `None` once a takeover is under way.
    pub(super) over_at: Option<Duration>,
    /// Since when, since boot, it is watched.
    since: Duration,
}

#[derive(Default)]
pub(super) struct Watching {
    timer: bool,
    takeover_at: Option<Duration>,
    reading: bool,
    /// Jobs to be read once the read under way is answered; empty means all.
    again: Option<Vec<JobName>>,
}

impl Engine {
    /// Becomes a backup of a run whose lease still lasts for `left`. Returns whether it is one.
    pub(super) fn watch_run(&mut self, run: RunKey, left: Duration, now: Now) -> bool {
        let known = self.jobs.find(run.job.as_str()).is_some();
        if !self.leases || run.manual.is_some() || !known || self.jobs.runs_here(&run) || self.stopping.is_some() {
            return false;
        }
        // A locked row tells nothing about its lease: look again soon, not at once.
        let left = if left.is_zero() { Duration::from_millis(100) } else { left };
        self.watch_until(run, now.boot.saturating_add(left), now);
        true
    }

    fn watch_until(&mut self, run: RunKey, over_at: Duration, now: Now) {
        let since = self.watched.get(&run).map_or(now.boot, |watched| watched.since);
        self.watched.insert(run, Watched { over_at: Some(over_at), since });
        self.time_takeover(over_at);
        if !self.watching.timer {
            self.watching.timer = true;
            self.timers.set(now.boot + self.settings.watch, Timer::Watch);
        }
    }

    /// A takeover could not be had now: keep watching.
    pub(super) fn look_again(&mut self, run: &RunKey, now: Now) {
        if self.watched.contains_key(run) {
            self.watch_until(run.clone(), now.boot + self.settings.watch, now);
        }
    }

    fn time_takeover(&mut self, at: Duration) {
        if self.watching.takeover_at.is_none_or(|set| at < set) {
            self.watching.takeover_at = Some(at);
            self.timers.set(at, Timer::Takeover);
        }
    }

    pub(super) fn watch(&mut self, now: Now) {
        self.watching.timer = false;
        if self.watched.is_empty() || self.stopping.is_some() {
            return;
        }
        self.watching.timer = true;
        self.timers.set(now.boot + self.settings.watch, Timer::Watch);
        let jobs: BTreeSet<JobName> = self.watched.keys().map(|run| run.job.clone()).collect();
        self.read_active(jobs.into_iter().collect());
    }

    /// Reads the unfinished runs of these jobs; of all, when none is named.
    pub(super) fn read_active(&mut self, jobs: Vec<JobName>) {
        if !self.leases || self.stopping.is_some() {
            return;
        }
        if self.watching.reading {
            let again = self.watching.again.get_or_insert_with(|| jobs.clone());
            if jobs.is_empty() || again.is_empty() {
                again.clear();
            } else {
                again.extend(jobs);
            }
            return;
        }
        self.watching.reading = true;
        let (store, sent) = (Arc::clone(&self.store), self.clock.boot());
        let asked = jobs.clone();
        let call = self.with_deadline(async move { store.active(&jobs).await });
        self.calls.push(Box::pin(async move { Reply::Active { asked, sent, answer: call.await } }));
    }

    pub(super) fn active_read(
        &mut self,
        asked: &[JobName],
        sent: Duration,
        answer: Result<Timed<Vec<ActiveRun>>, BackendError>,
        now: Now,
    ) {
        self.watching.reading = false;
        match answer {
            Ok(Timed { value, store_ms }) => {
                self.store_said(store_ms, sent, now);
                self.compare_watched(asked, &value, sent, now);
            }
            Err(error) => self.store_failed(&error, now),
        }
        if let Some(jobs) = self.watching.again.take() {
            self.read_active(jobs);
        }
    }

    fn compare_watched(&mut self, asked: &[JobName], active: &[ActiveRun], sent: Duration, now: Now) {
        let there: BTreeSet<&RunKey> = active.iter().map(|run| &run.run).collect();
        let asked: BTreeSet<&JobName> = asked.iter().collect();
        self.watched.retain(|run, watched| {
            let read = asked.is_empty() || asked.contains(&run.job);
            // A run that began after the read was sent is missing from it without being over; the next read has it.
            !read || watched.over_at.is_none() || watched.since >= sent || there.contains(run)
        });
        for run in active {
            let taking = self.watched.get(&run.run).is_some_and(|watched| watched.over_at.is_none());
            if taking || run.run.manual.is_some() || self.jobs.runs_here(&run.run) {
                continue;
            }
            if self.jobs.find(run.run.job.as_str()).is_some() {
                // The lease is not over before `left` after the sending, and surely over `left` after the answer.
                let spread = self.random.wait(SPREAD);
                let over_at = if run.left.is_zero() {
                    now.boot + spread
                } else {
                    now.boot.max(sent).saturating_add(run.left).saturating_add(spread)
                };
                let sooner =
                    self.watched.get(&run.run).and_then(|w| w.over_at).filter(|at| run.left.is_zero() && *at < over_at);
                self.watch_until(run.run.clone(), sooner.unwrap_or(over_at), now);
            }
        }
    }

    /// Claims the watched runs whose lease is over.
    pub(super) fn take_over(&mut self, now: Now) {
        // As with fences, a timer that an earlier one has replaced sets no other.
        if self.watching.takeover_at.is_none_or(|at| at > now.boot) {
            return;
        }
        self.watching.takeover_at = None;
        if self.stopping.is_some() {
            return;
        }
        let mut over = Vec::new();
        let mut next: Option<Duration> = None;
        for (run, watched) in &self.watched {
            match watched.over_at {
                Some(at) if at <= now.boot => over.push(run.clone()),
                Some(at) => next = Some(next.map_or(at, |next| next.min(at))),
                None => {}
            }
        }
        let mut due = Vec::new();
        for run in over {
            let Some(id) = self.jobs.find(run.job.as_str()) else {
                self.watched.remove(&run);
                continue;
            };
            // Our own handler of an earlier attempt may still block its thread: never two at once.
            if self.jobs.runs_here(&run) {
                continue;
            }
            due.push(Due {
                job: id,
                slot: run.slot,
                kind: ClaimKind::Takeover,
                limit: Duration::ZERO,
                jitter: Duration::ZERO,
                previous: None,
            });
            if let Some(watched) = self.watched.get_mut(&run) {
                watched.over_at = None;
            }
        }
        self.schedule(due, now);
        if let Some(at) = next {
            self.time_takeover(at);
        }
    }
}
