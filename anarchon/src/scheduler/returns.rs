//! Tokens of claims that nobody waits for any more: they are returned until it is known that they block nobody.

use std::sync::Arc;
use std::time::Duration;

use super::claim::{Claim, PACKET_LIFE};
use super::clocks::Now;
use super::engine::{Answers, Engine, Reply};
use super::timer::Timer;
use crate::backend::AT_ONCE;
use crate::event::Event;
use crate::run::{Release, ReleaseOutcome, RunKey, Timed};
use crate::slot::Token;

/// A token that an unanswered claim may have won, or may yet win: it is returned until that is answered.
#[derive(Clone, Debug)]
pub(super) struct OwedReturn {
    run: RunKey,
    /// No copy of the claim can be taken up after this store time.
    until: i64,
    /// A lease that it won is over by this time since boot.
    give_up: Duration,
    since: Duration,
    under_way: bool,
}

impl Engine {
    /// Notes that a copy of this token's claim may win although nobody waits for it.
    pub(super) fn owe_return(&mut self, run: RunKey, token: Token, until: Option<i64>, now: Now) {
        let Some(until) = until.filter(|_| self.leases) else { return };
        let give_up = now.boot + self.settings.call_deadline() + PACKET_LIFE + self.settings.lease;
        self.owed.insert(token, OwedReturn { run, until, give_up, since: now.boot, under_way: false });
        self.timers.set(now.boot, Timer::Return);
    }

    /// A won claim that is not to be started.
    pub(super) fn return_unstarted(&mut self, run: RunKey, token: Token, now: Now) {
        self.emit(Event::Returned { run: run.clone() });
        // Whether or not the return is answered, this instance may be the only one there is to start the run.
        self.watch_run(run.clone(), self.settings.lease, now);
        self.owe_return(run, token, Some(i64::MIN), now);
    }

    pub(super) fn send_returns(&mut self, now: Now) {
        self.owed.retain(|_, owed| owed.under_way || now.boot < owed.give_up);
        let waiting = self.owed.iter_mut().filter(|(_, owed)| !owed.under_way).take(AT_ONCE);
        let mut releases = Vec::new();
        for (token, owed) in waiting {
            owed.under_way = true;
            releases.push(Release::unstarted(owed.run.clone(), *token));
        }
        if releases.is_empty() {
            return;
        }
        let tokens: Vec<Token> = releases.iter().map(|release| release.token).collect();
        let (store, sent) = (Arc::clone(&self.store), now.boot);
        let call = self.many_with_deadline(tokens.len(), async move { store.release_many(&releases).await });
        self.calls.push(Box::pin(async move { Reply::Returns { tokens, sent, answers: call.await } }));
    }

    pub(super) fn returns_answered(
        &mut self,
        tokens: Vec<Token>,
        sent: Duration,
        answers: Answers<ReleaseOutcome>,
        now: Now,
    ) {
        for (token, answer) in tokens.into_iter().zip(answers) {
            let store_ms = match &answer {
                Ok(timed) => {
                    self.store_said(timed.store_ms, sent, now);
                    Some(timed.store_ms.unwrap_or_else(|| self.store_ms(now)))
                }
                Err(error) => {
                    self.store_failed(error, now);
                    None
                }
            };
            let Some(owed) = self.owed.get_mut(&token) else { continue };
            owed.under_way = false;
            let (since, until) = (owed.since, owed.until);
            let over = match &answer {
                Ok(Timed { value: ReleaseOutcome::Released, .. }) => true,
                Ok(_) => store_ms.is_some_and(|ms| ms > until) || self.stopping.is_some(),
                Err(error) => self.no_time_left(error, since, sent, now),
            };
            if over && let Some(owed) = self.owed.remove(&token) {
                if matches!(&answer, Ok(Timed { value: ReleaseOutcome::Released, .. })) {
                    self.watch_run(owed.run, Duration::ZERO, now);
                }
            } else {
                self.timers.set(now.boot + Duration::from_millis(250), Timer::Return);
            }
        }
        if !self.owed.is_empty() {
            self.timers.set(now.boot + Duration::from_millis(250), Timer::Return);
        }
    }
}

impl Claim {
    /// What is owed if this claim is dropped: a copy of it that was never answered may have won.
    pub(super) fn owed(&self) -> Option<(RunKey, Token, i64)> {
        let run = RunKey::scheduled(self.job.name.clone(), self.due.slot);
        self.unanswered_until.map(|until| (run, self.token, until))
    }
}
