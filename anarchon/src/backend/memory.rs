//! The smallest lease backend: a mutex around maps, and the pure rules of [`crate::lease`]. Read it first.
//!
//! It remembers everything up to its trim mark and coordinates the schedulers of one process, which makes it the store
//! for tests and documentation. Its clock is the machine's, or the one it is given.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::state::JobState;
use super::{Backend, HistoryByAge, LeaseBackend, Leases, ServerInfo};
use crate::clock::{Clock, SystemClock, to_ms};
use crate::error::BackendError;
use crate::run::{
    ActiveRun, Beat, BeatOutcome, ClaimOutcome, Finish, FinishOutcome, KnownJob, ManualClaim, ManualOutcome, Pause,
    Record, Registered, Registration, Release, ReleaseOutcome, RunClaim, Timed, Trim,
};
use crate::slot::JobName;

/// Looking through all jobs at every registration would make many registrations slow.
const SWEEP_EVERY_MS: u64 = 60_000;

/// A lease backend in this process's memory, for tests and documentation.
///
/// Clones share one store, so several schedulers can be given the same one.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), anarchon::Error> {
/// use anarchon::{MemoryBackend, Scheduler};
///
/// let store = MemoryBackend::new();
/// let a = Scheduler::builder(store.clone()).instance_id("a").start().await?;
/// let b = Scheduler::builder(store).instance_id("b").start().await?;
/// a.stop().await?;
/// b.stop().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct MemoryBackend {
    jobs: Arc<Mutex<Jobs>>,
    /// When jobs that nobody registers were last looked for.
    swept: Arc<AtomicI64>,
    clock: Arc<dyn Clock>,
}

impl MemoryBackend {
    /// An empty store on the machine's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock))
    }

    /// An empty store whose own clock is `clock`'s wall clock.
    #[must_use]
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self { jobs: Arc::default(), swept: Arc::default(), clock }
    }

    /// One atomic step on a job's state, at one reading of the store's clock.
    fn step<R>(&self, job: &JobName, step: impl FnOnce(&mut JobState, i64) -> R) -> Timed<R> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.wall_ms();
        Timed::at(step(jobs.state(job, now), now), now)
    }

    /// Many steps behind one lock, at one reading of the store's clock.
    fn step_many<T, R>(
        &self,
        items: &[T],
        job: impl Fn(&T) -> &JobName,
        step: impl Fn(&mut JobState, &T, i64) -> R,
    ) -> Vec<Result<Timed<R>, BackendError>> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.wall_ms();
        items.iter().map(|item| Ok(Timed::at(step(jobs.state(job(item), now), item, now), now))).collect()
    }
}

/// States in the order they came, found by name: jobs that were added together are mostly due together.
#[derive(Debug, Default)]
struct Jobs {
    states: Vec<JobState>,
    places: HashMap<JobName, usize>,
}

impl Jobs {
    /// The state of a job; a new one begins at `now`.
    fn state(&mut self, job: &JobName, now: i64) -> &mut JobState {
        let place = self.places.get(job).copied().unwrap_or_else(|| {
            self.places.insert(job.clone(), self.states.len());
            self.states.push(JobState::new(now));
            self.states.len() - 1
        });
        &mut self.states[place]
    }

    fn get_mut(&mut self, job: &JobName) -> Option<&mut JobState> {
        self.states.get_mut(*self.places.get(job)?)
    }

    fn drop_those(&mut self, gone: impl Fn(&JobState) -> bool) {
        if !self.states.iter().any(&gone) {
            return;
        }
        let mut states: Vec<Option<JobState>> = self.states.drain(..).map(Some).collect();
        self.places.retain(|_, place| {
            let kept = states[*place].take().filter(|state| !gone(state));
            *place = self.states.len();
            let stays = kept.is_some();
            self.states.extend(kept);
            stays
        });
    }
}

impl Default for MemoryBackend {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBackend").finish_non_exhaustive()
    }
}

impl Backend for MemoryBackend {
    type Strength = Leases;

    fn name(&self) -> &str {
        "memory"
    }

    fn history_by_age(&self) -> bool {
        true
    }

    async fn connect(&self) -> Result<ServerInfo, BackendError> {
        Ok(ServerInfo::new("memory of this process"))
    }

    async fn known(&self, names: &[JobName]) -> Result<Option<Vec<KnownJob>>, BackendError> {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |(name, place): (&JobName, &usize)| jobs.states[*place].known(name);
        let mut known: Vec<KnownJob> = match names {
            [] => jobs.places.iter().map(of).collect(),
            names => names.iter().filter_map(|name| jobs.places.get_key_value(name)).map(of).collect(),
        };
        known.sort_by(|a, b| a.job.cmp(&b.job));
        Ok(Some(known))
    }

    async fn clock(&self) -> Result<Option<i64>, BackendError> {
        Ok(Some(self.clock.wall_ms()))
    }

    async fn register(
        &self,
        registrations: &[Registration],
        forget_after: Duration,
    ) -> Result<Timed<Vec<Registered>>, BackendError> {
        let registered =
            registrations.iter().map(|r| self.step(&r.job, |job, now| job.register(r, now)).value).collect();
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.wall_ms();
        let sweep_every = SWEEP_EVERY_MS.min(to_ms(forget_after).unsigned_abs());
        if now.abs_diff(self.swept.load(Ordering::Relaxed)) >= sweep_every {
            self.swept.store(now, Ordering::Relaxed);
            jobs.drop_those(|job| job.forgotten(forget_after, now));
        }
        Ok(Timed::at(registered, now))
    }

    async fn claim_manual(&self, claim: &ManualClaim) -> Result<Timed<ManualOutcome>, BackendError> {
        Ok(self.step(&claim.job, |job, now| job.claim_manual(claim, now)))
    }

    async fn finish(&self, finish: &Finish) -> Result<Timed<FinishOutcome>, BackendError> {
        Ok(self.step(&finish.run.job, |job, now| job.finish(finish, now)))
    }

    async fn finish_many(&self, finishes: &[Finish]) -> Vec<Result<Timed<FinishOutcome>, BackendError>> {
        self.step_many(finishes, |finish| &finish.run.job, JobState::finish)
    }

    async fn history(&self, job: &JobName, limit: u32) -> Result<Vec<Record>, BackendError> {
        Ok(self.step(job, |state, _| state.history(job, limit)).value)
    }

    async fn trim(&self, jobs: &[Trim]) -> Result<(), BackendError> {
        for trim in jobs {
            self.step(&trim.job, |job, now| job.trim(trim, now));
        }
        Ok(())
    }

    async fn close(&self) {}
}

impl LeaseBackend for MemoryBackend {
    async fn claim(&self, claim: &RunClaim) -> Result<Timed<ClaimOutcome>, BackendError> {
        Ok(self.step(&claim.job, |job, now| job.claim(claim, now)))
    }

    async fn claim_many(&self, claims: &[RunClaim]) -> Vec<Result<Timed<ClaimOutcome>, BackendError>> {
        self.step_many(claims, |claim| &claim.job, JobState::claim)
    }

    async fn heartbeat(&self, beat: &Beat) -> Result<Timed<BeatOutcome>, BackendError> {
        Ok(self.step(&beat.run.job, |job, now| job.heartbeat(beat, now)))
    }

    async fn heartbeat_many(&self, beats: &[Beat]) -> Vec<Result<Timed<BeatOutcome>, BackendError>> {
        self.step_many(beats, |beat| &beat.run.job, JobState::heartbeat)
    }

    async fn release(&self, release: &Release) -> Result<Timed<ReleaseOutcome>, BackendError> {
        Ok(self.step(&release.run.job, |job, now| job.release(release, now)))
    }

    async fn release_many(&self, releases: &[Release]) -> Vec<Result<Timed<ReleaseOutcome>, BackendError>> {
        self.step_many(releases, |release| &release.run.job, JobState::release)
    }

    async fn active(&self, names: &[JobName]) -> Result<Timed<Vec<ActiveRun>>, BackendError> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.wall_ms();
        let mut runs = Vec::new();
        if names.is_empty() {
            jobs.states.iter_mut().for_each(|job| job.active(now, &mut runs));
        }
        for name in names {
            if let Some(job) = jobs.get_mut(name) {
                job.active(now, &mut runs);
            }
        }
        runs.sort_by(|a, b| a.run.cmp(&b.run));
        Ok(Timed::at(runs, now))
    }

    async fn set_paused(&self, job: &JobName, pause: Option<&Pause>) -> Result<(), BackendError> {
        self.step(job, |state, now| state.paused = pause.map(|p| Box::new(Pause { at: now, ..p.clone() })));
        Ok(())
    }

    async fn paused(&self, job: &JobName) -> Result<Option<Pause>, BackendError> {
        Ok(self.step(job, |state, _| state.paused.as_deref().cloned()).value)
    }
}

impl HistoryByAge for MemoryBackend {}
