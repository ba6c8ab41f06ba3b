//! The life of a run on this instance: from the won claim to the end of its handler.

use std::sync::Arc;
use std::time::Duration;

use super::claim::Claim;
use super::clocks::Now;
use super::engine::Engine;
use super::handler::{Batch, Ended, Starting, error_text};
use super::manual::Waiter;
use super::timer::{JobId, Timer};
use crate::context::{CancelReason, Context, ContextParts, Signals};
use crate::event::Event;
use crate::job::Job;
use crate::run::{AttemptStatus, Ending, Finish, Reason, Release, RunKey};
use crate::slot::{Slot, Token};

/// The error of a handler that began to finish its run by itself and then returned without having done so.
pub(super) const NOT_COMMITTED: &str = "the transaction was not committed";

/// What a won claim said.
#[derive(Clone, Copy, Debug)]
pub(super) struct Win {
    pub(super) attempt: u32,
    pub(super) fence: Option<u64>,
    pub(super) reason: Reason,
    pub(super) max_attempts: u32,
}

/// What is left to be said to the store about a run.
#[derive(Clone, Debug)]
pub(super) enum Last {
    Finish(Finish),
    Release(Release),
}

/// A run on this instance.
pub(super) struct Run {
    pub(super) job: Arc<Job>,
    /// Its job, which may have been removed meanwhile; a manual run is of no slot, and has none.
    pub(super) job_id: Option<JobId>,
    pub(super) key: RunKey,
    pub(super) win: Win,
    pub(super) token: Token,
    /// When, since boot, its lease may be over: counted from the sending of the last answered request.
    pub(super) lease_until: Duration,
    pub(super) timeout_at: Option<Duration>,
    timed_out: bool,
    pub(super) cancelled: Option<CancelReason>,
    /// The store has said that the lease is over.
    pub(super) lost: bool,
    pub(super) said_lost: bool,
    /// The handler has ended, and this is to be said.
    pub(super) last: Option<Last>,
    /// When, since boot, it ended.
    pub(super) ended: Duration,
    /// What is to be said is under way.
    pub(super) saying: bool,
    pub(super) tries: u32,
    /// stop() gave up on its handler.
    pub(super) abandoned: bool,
    pub(super) waiter: Option<Waiter>,
    reins: Reins,
}

/// The engine's hold on a handler, which is dropped when the engine lets go of it.
struct Reins(Context);

impl Drop for Reins {
    fn drop(&mut self) {
        self.0.0.signals.let_go();
    }
}

impl Run {
    /// The lease is not over before `until`.
    pub(super) fn renewed(&mut self, until: Duration, margin: Duration) {
        self.lease_until = self.lease_until.max(until);
        self.reins.0.0.signals.set_fence(self.lease_until.saturating_sub(margin));
    }

    /// Whether a transaction of the user's was to mark it done: then only the store knows.
    pub(super) fn finish_called(&self) -> bool {
        self.reins.0.0.signals.finish_called()
    }

    /// Whether such a transaction may have its row locked.
    pub(super) fn finish_open(&self) -> bool {
        self.reins.0.0.signals.finish_open()
    }

    /// Whether another instance may start it again after a stop.
    pub(super) fn can_hand_over(&self, leases: bool) -> bool {
        leases && self.key.manual.is_none() && self.win.max_attempts > 1
    }
}

impl Engine {
    pub(super) fn won(&mut self, claim: Claim, key: RunKey, win: Win, sent: Duration, now: Now) {
        let lease_until = sent + self.settings.lease;
        let too_late = self.leases && now.boot + self.settings.margin() * 2 >= lease_until;
        let state = self.jobs.get_mut(claim.due.job);
        let wanted = state.as_ref().is_some_and(|state| !state.running.has(key.slot)) && self.stopping.is_none();
        if self.leases && (too_late || !wanted) {
            self.return_unstarted(key, claim.token, now);
            return;
        }
        if let Some(state) = state {
            state.skips = None;
        }
        self.watched.remove(&key);
        let Win { attempt, fence, reason, .. } = win;
        self.tell(|| Event::Claimed { run: key.clone(), attempt, fence, reason });
        self.start(claim.job, Some(claim.due.job), key, win, claim.token, lease_until, None, now);
    }

    /// Makes a run of a won claim; its handler starts in [`start_handlers`](Self::start_handlers).
    #[allow(clippy::too_many_arguments)]
    pub(super) fn start(
        &mut self,
        job: Arc<Job>,
        job_id: Option<JobId>,
        key: RunKey,
        win: Win,
        token: Token,
        lease_until: Duration,
        waiter: Option<Waiter>,
        now: Now,
    ) {
        let id = self.id();
        let timeout_at = job.timeout.map(|timeout| now.boot + timeout);
        let deadline =
            job.timeout.map(|timeout| Slot::from_ms(crate::lease::later(self.store_ms(now), timeout)).to_datetime());
        let context = Context(Arc::new(ContextParts {
            run: key.clone(),
            attempt: win.attempt,
            token,
            fence: win.fence,
            reason: win.reason,
            instance: self.instance.clone(),
            deadline,
            signals: Signals::default(),
        }));
        let reins = Reins(context.clone());
        if self.leases {
            context.0.signals.set_fence(lease_until.saturating_sub(self.settings.margin()));
        }
        self.starting.push(Starting {
            run: id,
            job: Arc::clone(&job),
            context,
            span: tracing::info_span!("run", job = %key.job, slot = %key.slot, attempt = win.attempt),
        });
        self.tell(|| Event::Started { run: key.clone(), attempt: win.attempt });
        if let Some(at) = timeout_at {
            self.time_timeout(at);
        }
        if let Some(job) = job_id {
            self.jobs.run_begins(job, &key);
        }
        let run = Run {
            job,
            job_id,
            key,
            win,
            token,
            lease_until,
            timeout_at,
            timed_out: false,
            cancelled: None,
            lost: false,
            said_lost: false,
            last: None,
            ended: now.boot,
            saying: false,
            tries: 0,
            abandoned: false,
            waiter,
            reins,
        };
        self.runs.insert(id, Box::new(run));
        if self.leases {
            self.begin_beating(lease_until, now);
            self.time_fence(lease_until.saturating_sub(self.settings.margin() * 2));
        }
        if self.stopping.is_some() {
            self.stop_run(id, now);
        }
    }

    /// Starts what was won on the user's runtime. Many handlers are brought there by one task: waking another thread for
    /// each costs more than most of them take.
    pub(super) fn start_handlers(&mut self) {
        if self.starting.len() > 1 {
            let next = Vec::with_capacity(self.starting.len());
            let starting = std::mem::replace(&mut self.starting, next);
            let batch = Batch { home: Arc::clone(&self.home), starting: starting.into_iter() };
            self.handlers.spawn(batch.run());
        } else if let Some(one) = self.starting.pop() {
            self.handlers.spawn(one.run(Arc::clone(&self.home)));
        }
    }

    /// Tells a handler to stop; it is dropped at its next await when the grace is over.
    pub(super) fn cancel(&mut self, id: u64, reason: CancelReason, grace: Duration, now: Now) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        if run.last.is_some() {
            return;
        }
        if run.cancelled.is_none() {
            run.cancelled = Some(reason);
            run.reins.0.0.signals.cancel(reason);
        }
        if grace.is_zero() {
            self.drop_handler(id);
        } else {
            self.timers.set(now.boot + grace, Timer::Drop(id));
        }
    }

    pub(super) fn drop_handler(&self, id: u64) {
        if let Some(run) = self.runs.get(&id) {
            run.reins.0.0.signals.drop_handler();
        }
    }

    /// One timer for all time-outs: one for each run would stay until its time-out, however long ago the run ended.
    fn time_timeout(&mut self, at: Duration) {
        if self.timeout_at.is_none_or(|set| at < set) {
            self.timeout_at = Some(at);
            self.timers.set(at, Timer::Timeout);
        }
    }

    pub(super) fn check_timeouts(&mut self, now: Now) {
        // A timer that an earlier one has replaced sets no other.
        if self.timeout_at.is_none_or(|at| at > now.boot) {
            return;
        }
        self.timeout_at = None;
        let going = self.runs.iter_mut().filter(|(_, run)| run.last.is_none());
        let mut over = Vec::new();
        let mut next: Option<Duration> = None;
        for (id, run) in going {
            match run.timeout_at {
                Some(at) if at <= now.boot && !run.timed_out => {
                    run.timed_out = true;
                    over.push(*id);
                }
                Some(at) if at > now.boot => next = Some(next.map_or(at, |next| next.min(at))),
                _ => {}
            }
        }
        over.into_iter().for_each(|id| self.timed_out(id, now));
        if let Some(at) = next {
            self.time_timeout(at);
        }
    }

    fn timed_out(&mut self, id: u64, now: Now) {
        let grace = self.settings.stop_grace;
        let Some(run) = self.runs.get(&id).filter(|run| run.last.is_none()) else { return };
        tracing::warn!(run = %run.key, timeout = ?run.job.timeout, "the run takes longer than its time-out");
        self.cancel(id, CancelReason::Timeout, grace, now);
    }

    /// The handler has ended: decides what the store is told.
    pub(super) fn handler_ended(&mut self, id: u64, ended: Ended, now: Now) {
        let leases = self.leases;
        let store_now = self.store_ms(now);
        let instance = self.instance.clone();
        let Some(run) = self.runs.get_mut(&id) else { return };
        let key = run.key.clone();
        let finish = |ending, last| {
            let retention = run.job.retention;
            let unless_done = run.finish_called();
            let finish = Finish::new(key.clone(), run.token, ending, instance, store_now);
            Some(Last::Finish(Finish { last, unless_done, retention, ..finish }))
        };
        // A handler that a dying runtime drops is given up like one that stop() drops.
        let reason = match (&ended, run.cancelled) {
            (Ended::Dropped, None) => Some(CancelReason::Stop),
            (Ended::Fenced, None) => Some(CancelReason::LeaseLost),
            (_, reason) => reason,
        };
        let last = match (ended, reason) {
            (Ended::Ok, _) if run.finish_called() => finish(Ending::Failed(NOT_COMMITTED.to_owned()), false),
            (Ended::Ok, _) => finish(Ending::Done, false),
            (Ended::Failed(text), None) => finish(Ending::Failed(text), false),
            (Ended::Dropped | Ended::Fenced, None) => None,
            (_, Some(CancelReason::LeaseLost)) => None,
            (ended, Some(CancelReason::Timeout)) => {
                let limit = run.job.timeout.unwrap_or_default();
                let mut text = format!("ran longer than {}", anarchon_schedule::interval::format(limit));
                if let Ended::Failed(error) = ended {
                    text = error_text(&format!("{text}; then it returned: {error}"));
                }
                finish(Ending::TimedOut(text), false)
            }
            (_, Some(CancelReason::Stop)) if run.can_hand_over(leases) => {
                Some(Last::Release(Release::hand_over(key.clone(), run.token)))
            }
            (ended, Some(CancelReason::Stop)) => {
                let text = match ended {
                    Ended::Failed(error) => error_text(&format!("stopped; it returned: {error}")),
                    _ => "stopped".to_owned(),
                };
                finish(Ending::Failed(text), true)
            }
        };
        match last {
            Some(last) => {
                run.last = Some(last);
                run.ended = now.boot;
                self.tally.ended += 1;
                self.say_last(id, now);
            }
            None => self.lose(id, now),
        }
    }

    /// The run is not this instance's any more: it becomes a backup of it.
    pub(super) fn lose(&mut self, id: u64, now: Now) {
        let Some(run) = self.forget_run(id) else { return };
        if !run.said_lost {
            self.say_lost(&run);
        }
        Waiter::tell(run.waiter, Ok(AttemptStatus::Lost));
        let watch = self.settings.watch;
        self.watch_run(run.key, watch, now);
        self.read_active(vec![run.job.name.clone()]);
    }

    /// Says it when the handler is told, however long that goes on.
    pub(super) fn say_lease_lost(&mut self, id: u64) {
        if let Some(run) = self.runs.get_mut(&id)
            && !std::mem::replace(&mut run.said_lost, true)
            && let Some(run) = self.runs.get(&id)
        {
            self.tally.lost += 1;
            self.say_lost(run);
        }
    }

    fn say_lost(&self, run: &Run) {
        tracing::warn!(run = %run.key, attempt = run.win.attempt, "lease lost: another instance may run this now");
        self.emit(Event::LeaseLost { run: run.key.clone(), attempt: run.win.attempt });
    }
}
