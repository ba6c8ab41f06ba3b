//! Ends of attempts on their way to the store: gathered for a moment, sent together, repeated until they are answered.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::clocks::Now;
use super::engine::{Answers, Engine, Reply, no_answer};
use super::manual::Waiter;
use super::runner::{Last, NOT_COMMITTED, Run};
use super::timer::Timer;
use crate::backend::AT_ONCE;
use crate::error::{BackendError, BackendErrorKind};
use crate::event::Event;
use crate::run::{AttemptStatus, Ending, Finish, FinishOutcome, ReleaseOutcome, Status, Timed};

/// Ends that come within this time go together.
const GATHER: Duration = Duration::from_millis(3);
/// While slots wait to be claimed, their runs come first: ends wait with them, but no longer than this.
const BEHIND_CLAIMS: Duration = Duration::from_millis(50);
const FIRST_RETRY: Duration = Duration::from_millis(50);
const LONGEST_RETRY: Duration = Duration::from_secs(2);
/// A store that refuses an end this often will not take it.
const REFUSALS: u32 = 6;

#[derive(Default)]
pub(super) struct Finishing {
    waiting: VecDeque<u64>,
    timer: bool,
    under_way: usize,
}

impl Engine {
    /// Lets the store know how a run's handler ended.
    pub(super) fn say_last(&mut self, id: u64, now: Now) {
        self.finishing.waiting.push_back(id);
        if !self.finishing.timer {
            self.gather_ends(now);
        }
    }

    fn gather_ends(&mut self, now: Now) {
        self.finishing.timer = true;
        self.timers.set(now.boot + GATHER, Timer::Finish);
    }

    fn ends_can_wait(&self, now: Now) -> bool {
        let first = self.finishing.waiting.front().and_then(|id| self.runs.get(id));
        self.stopping.is_none() && first.is_some_and(|run| now.boot < run.ended + BEHIND_CLAIMS)
    }

    pub(super) fn send_endings(&mut self, now: Now) {
        self.finishing.timer = false;
        // While a call is under way, more gathers; its answer sends that.
        if self.finishing.under_way > 0 {
            return;
        }
        if self.claims.any_to_send() && self.ends_can_wait(now) {
            self.gather_ends(now);
            return;
        }
        if self.stopping.as_ref().is_some_and(|stopping| stopping.silent) {
            let silent = no_answer(self.store.name(), self.settings.call_deadline());
            for id in std::mem::take(&mut self.finishing.waiting) {
                self.leave_unsaid(id, &silent, now);
            }
            return;
        }
        let mut settled = Vec::new();
        let (mut finishes, mut finished) = (Vec::new(), Vec::new());
        let (mut releases, mut released) = (Vec::new(), Vec::new());
        // Those that failed together come again together, each time in smaller calls, until each goes alone: neither can one
        // that the store refuses take others with it, nor can there be too many for one call's time.
        let front = self.finishing.waiting.front().and_then(|id| self.runs.get(id));
        let tries = front.map_or(0, |run| run.tries);
        let at_once = (AT_ONCE >> (2 * tries).min(10)).max(1);
        while finishes.len().max(releases.len()) < at_once {
            let Some(id) = self.finishing.waiting.pop_front() else { break };
            let Some(run) = self.runs.get_mut(&id).filter(|run| !run.saying) else { continue };
            match &run.last {
                Some(last) if run.finish_called() => settled.push((id, last.clone())),
                Some(Last::Finish(finish)) => {
                    finishes.push(finish.clone());
                    finished.push(id);
                }
                Some(Last::Release(release)) => {
                    releases.push(release.clone());
                    released.push(id);
                }
                None => continue,
            }
            run.saying = true;
            run.tries += 1;
        }
        let sent = now.boot;
        settled.into_iter().for_each(|(id, last)| self.settle(id, last, now));
        if !finishes.is_empty() {
            self.finishing.under_way += 1;
            let store = Arc::clone(&self.store);
            let call = self.many_with_deadline(finishes.len(), async move { store.finish_many(&finishes).await });
            let alone = false;
            self.calls
                .push(Box::pin(async move { Reply::Finishes { runs: finished, alone, sent, answers: call.await } }));
        }
        if !releases.is_empty() {
            self.finishing.under_way += 1;
            let store = Arc::clone(&self.store);
            let call = self.many_with_deadline(releases.len(), async move { store.release_many(&releases).await });
            let alone = false;
            self.calls
                .push(Box::pin(async move { Reply::Releases { runs: released, alone, sent, answers: call.await } }));
        }
    }

    /// Ends a run that a transaction of the user's was to mark done. That may still be open, or about to be rolled back,
    /// and then this call waits for it: so it carries nothing else, and nothing else waits for it.
    fn settle(&self, id: u64, last: Last, now: Now) {
        let (store, sent, runs, alone) = (Arc::clone(&self.store), now.boot, vec![id], true);
        match last {
            Last::Finish(finish) => {
                let call = self.many_with_deadline(1, async move { store.finish_many(&[finish]).await });
                self.calls.push(Box::pin(async move { Reply::Finishes { runs, alone, sent, answers: call.await } }));
            }
            Last::Release(release) => {
                let call = self.many_with_deadline(1, async move { store.release_many(&[release]).await });
                self.calls.push(Box::pin(async move { Reply::Releases { runs, alone, sent, answers: call.await } }));
            }
        }
    }

    /// What has gathered meanwhile goes next.
    fn call_ended(&mut self, now: Now) {
        self.finishing.under_way = self.finishing.under_way.saturating_sub(1);
        if self.finishing.under_way == 0 && !self.finishing.waiting.is_empty() && !self.finishing.timer {
            self.send_endings(now);
        }
    }

    pub(super) fn finishes_answered(
        &mut self,
        runs: Vec<u64>,
        alone: bool,
        sent: Duration,
        answers: Answers<FinishOutcome>,
        now: Now,
    ) {
        for (id, answer) in runs.into_iter().zip(answers) {
            match answer {
                Ok(Timed { value, store_ms }) => {
                    self.store_said(store_ms, sent, now);
                    match value {
                        FinishOutcome::Recorded { run, retry_in } => self.recorded(id, run, retry_in, now),
                        FinishOutcome::Lost => self.lose(id, now),
                    }
                }
                Err(error) => self.ending_failed(id, &error, sent, now),
            }
        }
        if !alone {
            self.call_ended(now);
        }
    }

    pub(super) fn releases_answered(
        &mut self,
        runs: Vec<u64>,
        alone: bool,
        sent: Duration,
        answers: Answers<ReleaseOutcome>,
        now: Now,
    ) {
        for (id, answer) in runs.into_iter().zip(answers) {
            match answer {
                Ok(Timed { value, store_ms }) => {
                    self.store_said(store_ms, sent, now);
                    match value {
                        ReleaseOutcome::Released => self.handed_over(id, now),
                        ReleaseOutcome::Lost => self.not_released(id, now),
                    }
                }
                Err(error) => self.ending_failed(id, &error, sent, now),
            }
        }
        if !alone {
            self.call_ended(now);
        }
    }

    /// What was to be handed over is not this instance's any more; or it is done, by a transaction of the user's.
    fn not_released(&mut self, id: u64, now: Now) {
        let (instance, store_now) = (self.instance.clone(), self.store_ms(now));
        match self.runs.get_mut(&id).filter(|run| run.finish_called()) {
            Some(run) => {
                let ending = Ending::Failed(NOT_COMMITTED.to_owned());
                let finish = Finish::new(run.key.clone(), run.token, ending, instance, store_now);
                run.last = Some(Last::Finish(Finish { unless_done: true, retention: run.job.retention, ..finish }));
                run.saying = false;
                self.say_last(id, now);
            }
            None => self.lose(id, now),
        }
    }

    fn recorded(&mut self, id: u64, run_status: Status, retry_in: Option<Duration>, now: Now) {
        let Some(run) = self.forget_run(id) else { return };
        let Some(Last::Finish(finish)) = run.last else { return };
        // It may have been marked done before, by a transaction of the user's.
        let (status, error) = match run_status {
            Status::Done => (AttemptStatus::Done, None),
            _ => (finish.ending.status(), finish.ending.error()),
        };
        match status {
            AttemptStatus::Done => tracing::debug!(run = %run.key, attempt = run.win.attempt, "done"),
            _ => tracing::warn!(
                run = %run.key, attempt = run.win.attempt, %status, error = error.unwrap_or_default(),
                "the attempt did not end well"
            ),
        }
        self.trim_later(&run.key.job, now);
        self.tell(|| Event::Finished {
            run: run.key.clone(),
            attempt: run.win.attempt,
            status,
            run_status,
            error: error.map(Into::into),
        });
        Waiter::tell(run.waiter, Ok(status));
        if let (Status::Waiting, Some(wait)) = (run_status, retry_in) {
            self.watch_run(run.key, wait, now);
        }
    }

    fn handed_over(&mut self, id: u64, now: Now) {
        let Some(run) = self.forget_run(id) else { return };
        tracing::info!(run = %run.key, attempt = run.win.attempt, "handed over");
        self.emit(Event::HandedOver { run: run.key.clone(), attempt: run.win.attempt });
        Waiter::tell(run.waiter, Ok(AttemptStatus::HandedOver));
        // A runtime that died under a living scheduler hands over too, and then this instance is a backup again.
        self.watch_run(run.key, self.settings.watch, now);
    }

    /// Repeats what the store did not take, with the same token.
    fn ending_failed(&mut self, id: u64, error: &BackendError, sent: Duration, now: Now) {
        self.store_failed(error, now);
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.saying = false;
        let (tries, ended) = (run.tries, run.ended);
        let hopeless =
            matches!(error.kind(), BackendErrorKind::Refused | BackendErrorKind::Config) && tries >= REFUSALS;
        if hopeless || self.no_time_left(error, ended, sent, now) {
            self.leave_unsaid(id, error, now);
            return;
        }
        let wait = FIRST_RETRY.saturating_mul(1 << tries.min(6)).min(LONGEST_RETRY);
        // It waits by itself: neither do others wait for it, nor does it go again with the next of them.
        self.timers.set(now.boot + wait, Timer::Ending(id));
    }

    /// The store will not learn how this attempt ended; the end of its lease decides.
    fn leave_unsaid(&mut self, id: u64, error: &BackendError, now: Now) {
        let Some(run) = self.forget_run(id) else { return };
        tracing::error!(run = %run.key, %error, "the end of this attempt could not be recorded");
        Waiter::tell(run.waiter, Err(error.to_shared()));
        self.watch_run(run.key, self.settings.watch, now);
    }

    pub(super) fn forget_run(&mut self, id: u64) -> Option<Run> {
        let run = *self.runs.remove(&id)?;
        self.tally.ended -= usize::from(run.last.is_some());
        self.tally.lost -= usize::from(run.said_lost);
        if let Some(job) = run.job_id {
            self.jobs.run_ended(job, &run.key);
        }
        Some(run)
    }
}
