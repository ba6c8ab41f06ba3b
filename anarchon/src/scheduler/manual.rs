//! `run_now`: a run of its own, here and now.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::clocks::Now;
use super::engine::{Engine, Reply};
use super::runner::Win;
use super::timer::Timer;
use crate::error::{BackendError, BackendErrorKind, Error, Result};
use crate::event::Event;
use crate::job::Job;
use crate::lease::later;
use crate::run::{AttemptStatus, ManualClaim, ManualOutcome, Reason, RunKey, Timed};
use crate::slot::Token;

/// How often a manual claim is sent before its caller is told that the store fails.
const TRIES: u32 = 4;
const RETRY: Duration = Duration::from_millis(100);

/// A manual run that has started.
#[derive(Debug)]
pub struct ManualRun {
    run: RunKey,
    end: oneshot::Receiver<Result<AttemptStatus, BackendError>>,
}

impl ManualRun {
    /// Its identity: the job, the store's time when it was claimed, and its token.
    #[must_use]
    pub fn run(&self) -> &RunKey {
        &self.run
    }

    /// Waits until the run has ended and the store knows: with the status that it has there, `lost` if its lease ran
    /// out.
    ///
    /// # Errors
    /// [`Error::Backend`] when the end could not be recorded, [`Error::Stopped`] when the scheduler is gone.
    pub async fn finished(self) -> Result<AttemptStatus> {
        match self.end.await {
            Ok(end) => end.map_err(Error::Backend),
            Err(_) => Err(Error::Stopped),
        }
    }
}

/// Somebody who waits for the end of a manual run.
#[derive(Debug)]
pub(super) struct Waiter(oneshot::Sender<Result<AttemptStatus, BackendError>>);

impl Waiter {
    pub(super) fn tell(waiter: Option<Self>, end: Result<AttemptStatus, BackendError>) {
        if let Some(Self(waiter)) = waiter {
            // Whoever asked may have gone.
            let _ = waiter.send(end);
        }
    }
}

/// A manual claim on its way.
pub(super) struct PendingManual {
    under_way: bool,
    job: Arc<Job>,
    token: Token,
    exclusive: bool,
    tries: u32,
    reply: oneshot::Sender<Result<ManualRun>>,
}

impl Engine {
    pub(super) fn run_now(
        &mut self,
        job: String,
        exclusive: bool,
        reply: oneshot::Sender<Result<ManualRun>>,
        now: Now,
    ) {
        let Some(state) = self.jobs.find(&job).and_then(|id| self.jobs.get(id)) else {
            let _ = reply.send(Err(Error::UnknownJob(job)));
            return;
        };
        let job = Arc::clone(&state.job);
        let (id, token) = (self.id(), self.random.token());
        self.manual.insert(id, PendingManual { under_way: false, job, token, exclusive, tries: 0, reply });
        self.send_manual(id, now);
    }

    pub(super) fn send_manual(&mut self, id: u64, now: Now) {
        let store_now = self.store_ms(now);
        let Some(pending) = self.manual.get_mut(&id) else { return };
        pending.tries += 1;
        pending.under_way = true;
        let name = pending.job.name.clone();
        let mut claim = ManualClaim::new(name, pending.token, self.instance.clone(), store_now);
        claim.exclusive = pending.exclusive;
        claim.lease = self.settings.lease;
        claim.valid_until = later(store_now, self.settings.call_deadline() + Duration::from_secs(1));
        claim.retention = pending.job.retention;
        let (store, sent) = (Arc::clone(&self.store), now.boot);
        let call = self.with_deadline(async move { store.claim_manual(&claim).await });
        self.calls.push(Box::pin(async move { Reply::Manual { id, sent, answer: call.await } }));
    }

    pub(super) fn manual_answered(
        &mut self,
        id: u64,
        sent: Duration,
        answer: Result<Timed<ManualOutcome>, BackendError>,
        now: Now,
    ) {
        let answer = match answer {
            Ok(Timed { value, store_ms }) => {
                self.store_said(store_ms, sent, now);
                value
            }
            Err(error) => {
                self.store_failed(&error, now);
                let tries = self.manual.get(&id).map_or(TRIES, |pending| pending.tries);
                if tries < TRIES && self.stopping.is_none() {
                    self.manual.entry(id).and_modify(|pending| pending.under_way = false);
                    self.timers.set(now.boot + RETRY * tries, Timer::Manual(id));
                } else if let Some(pending) = self.manual.remove(&id) {
                    let _ = pending.reply.send(Err(error.into()));
                }
                return;
            }
        };
        let Some(pending) = self.manual.remove(&id) else { return };
        let PendingManual { job, token, reply, .. } = pending;
        match answer {
            ManualOutcome::Won { slot, fence } => {
                let lease_until = sent + self.settings.lease;
                let key = RunKey::manual(job.name.clone(), slot, token);
                if self.leases && now.boot + self.settings.margin() * 2 >= lease_until {
                    // Nobody takes a manual run over: its lease runs out unused.
                    let _ = reply.send(Err(self.manual_too_late().into()));
                    return;
                }
                let (end, ended) = oneshot::channel();
                let win = Win { attempt: 1, fence, reason: Reason::Manual, max_attempts: 1 };
                let (run, late) = (key.clone(), Duration::ZERO);
                self.emit(Event::Claimed { run, attempt: 1, fence, reason: Reason::Manual, late });
                self.start(job, None, key.clone(), win, token, lease_until, Some(Waiter(end)), now);
                let _ = reply.send(Ok(ManualRun { run: key, end: ended }));
            }
            ManualOutcome::Overlap => {
                let _ = reply.send(Err(Error::AlreadyRunning { job: job.name.clone() }));
            }
            ManualOutcome::Late => {
                let _ = reply.send(Err(self.manual_too_late().into()));
            }
        }
    }

    /// Drops what waits to be sent again; a claim under way is awaited.
    pub(super) fn stop_manual(&mut self) {
        self.manual.retain(|_, pending| pending.under_way);
    }

    fn manual_too_late(&self) -> BackendError {
        BackendError::new(self.store.name(), BackendErrorKind::Unknown, "its answer came too late to start the run")
    }
}
