//! A claim-only backend in memory: it says who was first within a window, and nothing more. For tests and
//! documentation, and the smallest example of the contract.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{Backend, ClaimBackend, ClaimOnly, ServerInfo};
use crate::clock::{Clock, SystemClock, from_ms, to_ms};
use crate::error::BackendError;
use crate::run::{
    AttemptRecord, Finish, FinishOutcome, ManualClaim, ManualOutcome, Reason, Record, Registered, Registration, RunKey,
    SlotClaim, SlotOutcome, Timed,
};
use crate::slot::{JobName, Slot, Token};

#[derive(Debug, Default)]
struct JobState {
    winners: BTreeMap<Slot, Token>,
    attempts: Vec<AttemptRecord>,
}

/// A claim-only backend in this process's memory.
///
/// Clones share one store. By default it remembers a decided slot for 5 minutes, like a broker would.
#[derive(Clone)]
pub struct ClaimOnlyMemoryBackend {
    jobs: Arc<Mutex<HashMap<JobName, JobState>>>,
    clock: Arc<dyn Clock>,
    window: Duration,
}

impl ClaimOnlyMemoryBackend {
    /// An empty store on the machine's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock))
    }

    /// An empty store whose own clock is `clock`'s wall clock.
    #[must_use]
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self { jobs: Arc::default(), clock, window: Duration::from_secs(300) }
    }

    /// Remembers a decided slot for `window` instead of 5 minutes, counted from the slot.
    #[must_use]
    pub fn with_window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    fn step<R>(&self, job: &JobName, step: impl FnOnce(&mut JobState, i64) -> R) -> Timed<R> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.wall_ms();
        Timed::at(step(jobs.entry(job.clone()).or_default(), now), now)
    }
}

impl Default for ClaimOnlyMemoryBackend {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ClaimOnlyMemoryBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClaimOnlyMemoryBackend").field("window", &self.window).finish_non_exhaustive()
    }
}

impl Backend for ClaimOnlyMemoryBackend {
    type Strength = ClaimOnly;

    fn name(&self) -> &str {
        "memory:claim-only"
    }

    fn memory(&self) -> Option<Duration> {
        Some(self.window)
    }

    async fn connect(&self) -> Result<ServerInfo, BackendError> {
        Ok(ServerInfo::new("memory of this process, claims only"))
    }

    async fn clock(&self) -> Result<Option<i64>, BackendError> {
        Ok(Some(self.clock.wall_ms()))
    }

    async fn register(&self, jobs: &[Registration], _: Duration) -> Result<Timed<Vec<Registered>>, BackendError> {
        let now = self.clock.wall_ms();
        Ok(Timed::at(jobs.iter().map(|_| Registered::new(now)).collect(), now))
    }

    async fn claim_manual(&self, claim: &ManualClaim) -> Result<Timed<ManualOutcome>, BackendError> {
        Ok(self.step(&claim.job, |job, now| {
            if now > claim.valid_until {
                return ManualOutcome::Late;
            }
            if let Some(known) = job.attempts.iter().find(|a| a.token == claim.token) {
                return ManualOutcome::Won { slot: known.run.slot, fence: None };
            }
            let slot = Slot::from_ms(now);
            let run = RunKey::manual(claim.job.clone(), slot, claim.token);
            let attempt = AttemptRecord::new(run, 1, claim.token, claim.instance.as_str(), now);
            job.record(AttemptRecord { reason: Reason::Manual, ..attempt }, claim.retention.size);
            ManualOutcome::Won { slot, fence: None }
        }))
    }

    async fn finish(&self, finish: &Finish) -> Result<Timed<FinishOutcome>, BackendError> {
        Ok(self.step(&finish.run.job, |job, now| {
            let status = finish.ending.status();
            if let Some(attempt) = job.attempts.iter_mut().find(|a| a.token == finish.token)
                && attempt.status.is_none()
            {
                attempt.status = Some(status);
                attempt.run_status = Some(crate::lease::attempt_as_run(status));
                attempt.ended_at = Some(now);
                attempt.error = finish.ending.error().map(str::to_owned);
                attempt.note = finish.last.then(|| "stopped".to_owned());
            }
            FinishOutcome::Recorded { run: crate::lease::attempt_as_run(status), retry_in: None }
        }))
    }

    async fn history(&self, job: &JobName, limit: u32) -> Result<Vec<Record>, BackendError> {
        let attempts = self.step(job, |state, _| state.attempts.clone()).value;
        Ok(crate::history::newest(attempts.into_iter().map(Record::Attempt).collect(), limit))
    }

    async fn close(&self) {}
}

impl JobState {
    fn record(&mut self, attempt: AttemptRecord, size: u32) {
        self.attempts.push(attempt);
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let excess = self.attempts.len().saturating_sub(size);
        self.attempts.drain(..excess);
    }
}

impl ClaimBackend for ClaimOnlyMemoryBackend {
    async fn claim(&self, claim: &SlotClaim) -> Result<Timed<SlotOutcome>, BackendError> {
        Ok(self.step(&claim.job, |job, now| {
            let slot = claim.slot;
            if now > claim.valid_until {
                return SlotOutcome::Stale;
            }
            if slot.ms() > now {
                return SlotOutcome::Early(from_ms(slot.ms().saturating_sub(now)));
            }
            if let Some(winner) = job.winners.get(&slot) {
                return if *winner == claim.token { SlotOutcome::Won } else { SlotOutcome::Taken };
            }
            let age = now.saturating_sub(slot.ms());
            if age > to_ms(claim.limit) || age >= to_ms(self.window) {
                return SlotOutcome::Late;
            }
            let forgotten = Slot::from_ms(now.saturating_sub(to_ms(self.window)));
            job.winners = job.winners.split_off(&forgotten);
            job.winners.insert(slot, claim.token);
            let run = RunKey::scheduled(claim.job.clone(), slot);
            let attempt = AttemptRecord::new(run, 1, claim.token, claim.instance.as_str(), now);
            job.record(attempt, claim.retention.size);
            SlotOutcome::Won
        }))
    }
}
