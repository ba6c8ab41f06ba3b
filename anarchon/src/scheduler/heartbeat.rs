//! Leases are kept as long as this instance lives, and handlers are cancelled before theirs can have run out.

use std::sync::Arc;
use std::time::Duration;

use super::clocks::Now;
use super::engine::{Answers, Engine, Reply};
use super::runner::Run;
use super::timer::Timer;
use crate::context::CancelReason;
use crate::run::{Beat, BeatOutcome};
use crate::slot::Token;

impl Engine {
    /// One call renews all leases of this instance.
    pub(super) fn begin_beating(&mut self, lease_until: Duration, now: Now) {
        if !self.beating {
            self.beating = true;
            self.timers.set(now.boot + self.settings.heartbeat(), Timer::Heartbeat);
        }
        // A claim whose answer took long has used up part of its lease: the next regular beat may come too late for it.
        let granted = lease_until.saturating_sub(self.settings.lease);
        if now.boot.saturating_sub(granted) > self.settings.heartbeat() / 4 && !self.beating_again {
            self.beating_again = true;
            self.timers.set(granted + self.settings.heartbeat(), Timer::Beat);
        }
    }

    pub(super) fn heartbeat(&mut self, now: Now) {
        if !self.runs.values().any(|run| !run.lost && !run.abandoned) {
            self.beating = false;
            return;
        }
        let (runs, beats): (Vec<(u64, Token)>, Vec<Beat>) = self
            .beatable()
            .map(|(id, run)| ((*id, run.token), Beat::new(run.key.clone(), run.token, self.settings.lease)))
            .unzip();
        self.timers.set(now.boot + self.settings.heartbeat(), Timer::Heartbeat);
        if !runs.is_empty() {
            self.send_beats(runs, beats, now);
        }
    }

    /// The runs whose leases are kept. One whose row a transaction of the user's may have locked is left out: the beats
    /// of all others would wait with it.
    fn beatable(&self) -> impl Iterator<Item = (&u64, &Box<Run>)> {
        self.runs.iter().filter(|(_, run)| !run.lost && !run.abandoned && !run.finish_open())
    }

    fn send_beats(&self, runs: Vec<(u64, Token)>, beats: Vec<Beat>, now: Now) {
        let (store, sent) = (Arc::clone(&self.store), now.boot);
        let call = self.many_with_deadline(runs.len(), async move { store.heartbeat_many(&beats).await });
        self.calls.push(Box::pin(async move { Reply::Beats { runs, sent, answers: call.await } }));
    }

    pub(super) fn beats_answered(
        &mut self,
        runs: Vec<(u64, Token)>,
        sent: Duration,
        answers: Answers<BeatOutcome>,
        now: Now,
    ) {
        let mut again = Vec::new();
        for ((id, token), answer) in runs.into_iter().zip(answers) {
            let outcome = match answer {
                Ok(timed) => {
                    self.store_said(timed.store_ms, sent, now);
                    timed.value
                }
                Err(error) => {
                    self.store_failed(&error, now);
                    again.push((id, token));
                    continue;
                }
            };
            let Some(run) = self.runs.get_mut(&id) else { continue };
            match outcome {
                BeatOutcome::Alive => run.renewed(sent + self.settings.lease, self.settings.margin()),
                // It may be done, by a transaction of the user's, whose own call has told, or will tell.
                BeatOutcome::Lost if run.finish_open() => {}
                BeatOutcome::Lost => self.lease_lost(id, now),
                BeatOutcome::Locked if run.finish_open() => {}
                // Somebody else's lock is short: a claim of another instance, or a trim.
                BeatOutcome::Locked => again.push((id, token)),
            }
        }
        self.beat_again(again, now);
    }

    /// A beat that failed at once is tried again at once, as long as that can save the lease.
    fn beat_again(&mut self, failed: Vec<(u64, Token)>, now: Now) {
        let quickly = self.settings.heartbeat() / 4;
        // One such timer at a time: regular beats fail meanwhile too, and each would begin a chain of its own.
        if !failed.is_empty() && !self.beating_again {
            self.beating_again = true;
            self.timers.set(now.boot + quickly, Timer::Beat);
        }
    }

    /// Between two regular beats: only what the last ones left unrenewed.
    pub(super) fn beat_unrenewed(&mut self, now: Now) {
        self.beating_again = false;
        let fresh = self.settings.lease - self.settings.heartbeat();
        let unrenewed = self.beatable().filter(|(_, run)| run.lease_until.saturating_sub(now.boot) <= fresh);
        let (runs, beats): (Vec<(u64, Token)>, Vec<Beat>) = unrenewed
            .map(|(id, run)| ((*id, run.token), Beat::new(run.key.clone(), run.token, self.settings.lease)))
            .unzip();
        if !runs.is_empty() {
            self.send_beats(runs, beats, now);
        }
    }

    fn lease_lost(&mut self, id: u64, now: Now) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        // What is being said about its end decides: a finish is accepted as long as nobody took the run over.
        if run.lost || run.last.is_some() {
            return;
        }
        run.lost = true;
        self.say_lease_lost(id);
        self.cancel(id, CancelReason::LeaseLost, Duration::ZERO, now);
    }

    pub(super) fn time_fence(&mut self, at: Duration) {
        if self.fence_at.is_none_or(|set| at < set) {
            self.fence_at = Some(at);
            self.timers.set(at, Timer::Fence);
        }
    }

    /// Cancels what could not be renewed for too long, and drops it before its lease can be over.
    pub(super) fn check_fences(&mut self, now: Now) {
        // Each earlier time that was set has left a later timer behind; if those set new ones, they would never end.
        if self.fence_at.is_none_or(|at| at > now.boot) {
            return;
        }
        self.fence_at = None;
        let margin = self.settings.margin();
        let mut next: Option<Duration> = None;
        let mut cancel = Vec::new();
        let mut drop = Vec::new();
        for (id, run) in self.runs.iter().filter(|(_, run)| run.last.is_none()) {
            let (cancel_at, drop_at) =
                (run.lease_until.saturating_sub(margin * 2), run.lease_until.saturating_sub(margin));
            let at = if now.boot >= drop_at {
                drop.push(*id);
                continue;
            } else if now.boot >= cancel_at {
                cancel.push(*id);
                drop_at
            } else {
                cancel_at
            };
            next = Some(next.map_or(at, |next| next.min(at)));
        }
        for id in cancel {
            self.say_lease_lost(id);
            self.cancel(id, CancelReason::LeaseLost, margin, now);
        }
        for id in drop {
            self.say_lease_lost(id);
            self.cancel(id, CancelReason::LeaseLost, Duration::ZERO, now);
        }
        if let Some(at) = next {
            self.time_fence(at);
        }
    }
}
