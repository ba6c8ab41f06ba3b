//! A store between the scheduler and a real one, that fails on demand and counts the calls.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::backend::sql::TransactionalFinish;
use crate::backend::{Backend, FinishIn, JobLimits, JobRefusal, LeaseBackend, Leases, ServerInfo};
use crate::error::{BackendError, BackendErrorKind};
use crate::run::{
    ActiveRun, Beat, BeatOutcome, ClaimOutcome, Finish, FinishOutcome, KnownJob, ManualClaim, ManualOutcome, Pause,
    Record, Registered, Registration, Release, ReleaseOutcome, RunClaim, Timed, Trim,
};
use crate::slot::JobName;

/// The calls of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum Verb {
    Connect,
    Clock,
    Register,
    Claim,
    ClaimManual,
    Heartbeat,
    Finish,
    Release,
    Active,
    History,
    Trim,
    Pause,
    Close,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// It fails, and the store has done nothing.
    Fail(BackendErrorKind),
    /// It never answers, and the store has done nothing.
    Swallow,
    /// The store does it, but the answer never comes.
    LoseReply,
    /// The store does it, and the call fails.
    FailAfter(BackendErrorKind),
    /// The store does it, but the answer is kept back until [`FaultyBackend::let_go`].
    HoldReply,
    /// The call never answers, and its packet reaches the store only at [`FaultyBackend::deliver`]. Claims alone can be
    /// late; other calls are swallowed.
    Late,
    /// The call panics, as a driver with a bug would.
    Panic,
}

/// A [`LeaseBackend`] that passes calls on, or fails as told. Clones share the store, but each client made by
/// [`client`](Self::client) has faults and counts of its own, like a connection of its own.
#[derive(Clone, Debug)]
pub struct FaultyBackend<B> {
    inner: B,
    plan: Arc<Mutex<Plan>>,
    go: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Plan {
    next: HashMap<Verb, VecDeque<Option<Fault>>>,
    always: Option<Fault>,
    each: HashMap<Verb, Fault>,
    refused: Vec<String>,
    late: Vec<RunClaim>,
    calls: HashMap<Verb, u64>,
    sizes: HashMap<Verb, Vec<usize>>,
}

impl<B: Clone> FaultyBackend<B> {
    /// Puts itself before `inner`.
    pub fn new(inner: B) -> Self {
        Self { inner, plan: Arc::default(), go: Arc::default() }
    }

    /// Another client of the same store, without faults.
    #[must_use]
    pub fn client(&self) -> Self {
        Self::new(self.inner.clone())
    }

    /// The next call of `verb` that has no fault planned yet gets this one.
    pub fn fail_next(&self, verb: Verb, fault: Fault) {
        self.plan().next.entry(verb).or_default().push_back(Some(fault));
    }

    /// The next call of `verb` that has no fault planned yet passes.
    pub fn pass_next(&self, verb: Verb) {
        self.plan().next.entry(verb).or_default().push_back(None);
    }

    /// Every call without a plan of its own gets this fault, until it is `None` again.
    pub fn fail_all(&self, fault: Option<Fault>) {
        self.plan().always = fault;
    }

    /// Every call of `verb` without a plan of its own gets this fault, until it is `None` again.
    pub fn fail_each(&self, verb: Verb, fault: Option<Fault>) {
        let mut plan = self.plan();
        match fault {
            Some(fault) => plan.each.insert(verb, fault),
            None => plan.each.remove(&verb),
        };
    }

    /// Claims and registrations of this job are refused from now on, those of other jobs in the same call are not.
    pub fn refuse_job(&self, job: &str) {
        self.plan().refused.push(job.to_owned());
    }

    /// Lets all answers through that are kept back now.
    pub fn let_go(&self) {
        self.go.notify_waiters();
    }

    /// How many calls of `verb` were made.
    #[must_use]
    pub fn calls(&self, verb: Verb) -> u64 {
        self.plan().calls.get(&verb).copied().unwrap_or(0)
    }

    /// How many things each call of `verb` was about.
    #[must_use]
    pub fn sizes(&self, verb: Verb) -> Vec<usize> {
        self.plan().sizes.get(&verb).cloned().unwrap_or_default()
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_fault(&self, verb: Verb, size: usize) -> Option<Fault> {
        let mut plan = self.plan();
        *plan.calls.entry(verb).or_default() += 1;
        plan.sizes.entry(verb).or_default().push(size);
        // A client is closed on this side; only a fault of its own can stand in the way.
        let always = plan.each.get(&verb).copied().or(plan.always.filter(|_| verb != Verb::Close));
        plan.next.get_mut(&verb).and_then(VecDeque::pop_front).unwrap_or(always)
    }

    fn next_is_late(&self, verb: Verb) -> bool {
        let plan = self.plan();
        let planned = plan.next.get(&verb).and_then(VecDeque::front).copied().flatten();
        planned.or(plan.each.get(&verb).copied()) == Some(Fault::Late)
    }

    fn refuses(&self, job: &JobName) -> bool {
        self.plan().refused.iter().any(|refused| refused == job.as_str())
    }

    async fn call<T>(
        &self,
        verb: Verb,
        call: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<T, BackendError> {
        self.call_about(verb, 1, call).await
    }

    async fn call_about<T>(
        &self,
        verb: Verb,
        count: usize,
        call: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<T, BackendError> {
        let error = |kind| BackendError::new("faulty", kind, "told to fail");
        match self.next_fault(verb, count) {
            None => call.await,
            Some(Fault::Fail(kind)) => Err(error(kind)),
            Some(Fault::Swallow | Fault::Late) => std::future::pending().await,
            Some(Fault::LoseReply) => {
                let _ = call.await;
                std::future::pending().await
            }
            Some(Fault::FailAfter(kind)) => {
                let _ = call.await;
                Err(error(kind))
            }
            Some(Fault::HoldReply) => {
                let answer = call.await;
                self.go.notified().await;
                answer
            }
            Some(Fault::Panic) => panic!("told to panic"),
        }
    }

    async fn many<T>(
        &self,
        verb: Verb,
        count: usize,
        call: impl Future<Output = Vec<Result<T, BackendError>>>,
    ) -> Vec<Result<T, BackendError>> {
        let errors = |kind| (0..count).map(|_| Err(BackendError::new("faulty", kind, "told to fail"))).collect();
        match self.next_fault(verb, count) {
            None => call.await,
            Some(Fault::Fail(kind)) => errors(kind),
            Some(Fault::Swallow | Fault::Late) => std::future::pending().await,
            Some(Fault::LoseReply) => {
                call.await;
                std::future::pending().await
            }
            Some(Fault::FailAfter(kind)) => {
                call.await;
                errors(kind)
            }
            Some(Fault::HoldReply) => {
                let answers = call.await;
                self.go.notified().await;
                answers
            }
            Some(Fault::Panic) => panic!("told to panic"),
        }
    }
}

impl<B: LeaseBackend + Clone> FaultyBackend<B> {
    /// Lets the packets arrive that are late, and says what the store makes of them; nobody else hears it.
    pub async fn deliver(&self) -> Vec<ClaimOutcome> {
        let late = std::mem::take(&mut self.plan().late);
        let mut outcomes = Vec::with_capacity(late.len());
        for claim in late {
            outcomes.extend(self.inner.claim(&claim).await.map(|timed| timed.value));
        }
        outcomes
    }
}

impl<B: LeaseBackend + Clone> Backend for FaultyBackend<B> {
    type Strength = Leases;

    fn name(&self) -> &str {
        "faulty"
    }
    fn memory(&self) -> Option<Duration> {
        self.inner.memory()
    }
    fn history_by_age(&self) -> bool {
        self.inner.history_by_age()
    }
    fn check_job(&self, limits: &JobLimits) -> Result<(), JobRefusal> {
        self.inner.check_job(limits)
    }
    fn transactional_finish(&self) -> Option<TransactionalFinish<'_>> {
        self.inner.transactional_finish()
    }
    async fn connect(&self) -> Result<ServerInfo, BackendError> {
        self.call(Verb::Connect, self.inner.connect()).await
    }
    async fn look(&self) -> Result<ServerInfo, BackendError> {
        self.call(Verb::Connect, self.inner.look()).await
    }
    async fn known(&self, jobs: &[JobName]) -> Result<Option<Vec<KnownJob>>, BackendError> {
        self.call(Verb::Register, self.inner.known(jobs)).await
    }
    async fn clock(&self) -> Result<Option<i64>, BackendError> {
        self.call(Verb::Clock, self.inner.clock()).await
    }
    async fn register(
        &self,
        jobs: &[Registration],
        forget_after: Duration,
    ) -> Result<Timed<Vec<Registered>>, BackendError> {
        if jobs.iter().any(|registration| self.refuses(&registration.job)) {
            self.next_fault(Verb::Register, jobs.len());
            return Err(BackendError::new("faulty", BackendErrorKind::Refused, "told to refuse a job"));
        }
        self.call(Verb::Register, self.inner.register(jobs, forget_after)).await
    }
    async fn claim_manual(&self, claim: &ManualClaim) -> Result<Timed<ManualOutcome>, BackendError> {
        self.call(Verb::ClaimManual, self.inner.claim_manual(claim)).await
    }
    async fn finish(&self, finish: &Finish) -> Result<Timed<FinishOutcome>, BackendError> {
        self.call(Verb::Finish, self.inner.finish(finish)).await
    }
    async fn finish_many(&self, finishes: &[Finish]) -> Vec<Result<Timed<FinishOutcome>, BackendError>> {
        self.many(Verb::Finish, finishes.len(), self.inner.finish_many(finishes)).await
    }
    async fn history(&self, job: &JobName, limit: u32) -> Result<Vec<Record>, BackendError> {
        self.call(Verb::History, self.inner.history(job, limit)).await
    }
    async fn trim(&self, jobs: &[Trim]) -> Result<(), BackendError> {
        self.call_about(Verb::Trim, jobs.len(), self.inner.trim(jobs)).await
    }
    async fn close(&self) {
        let _ = self
            .call(Verb::Close, async {
                self.inner.close().await;
                Ok(())
            })
            .await;
    }
}

impl<B: LeaseBackend + Clone> LeaseBackend for FaultyBackend<B> {
    async fn claim(&self, claim: &RunClaim) -> Result<Timed<ClaimOutcome>, BackendError> {
        self.call(Verb::Claim, self.inner.claim(claim)).await
    }
    async fn claim_many(&self, claims: &[RunClaim]) -> Vec<Result<Timed<ClaimOutcome>, BackendError>> {
        let refuse = |claim: &RunClaim| {
            self.refuses(&claim.job)
                .then(|| BackendError::new("faulty", BackendErrorKind::Refused, "told to refuse a job"))
        };
        if self.next_is_late(Verb::Claim) {
            self.plan().late.extend_from_slice(claims);
        }
        let mut refused: Vec<Option<BackendError>> = claims.iter().map(refuse).collect();
        let good: Vec<RunClaim> = claims.iter().filter(|claim| !self.refuses(&claim.job)).cloned().collect();
        let mut answers = self.many(Verb::Claim, claims.len(), self.inner.claim_many(&good)).await.into_iter();
        refused.iter_mut().filter_map(|refused| refused.take().map(Err).or_else(|| answers.next())).collect()
    }
    async fn heartbeat(&self, beat: &Beat) -> Result<Timed<BeatOutcome>, BackendError> {
        self.call(Verb::Heartbeat, self.inner.heartbeat(beat)).await
    }
    async fn heartbeat_many(&self, beats: &[Beat]) -> Vec<Result<Timed<BeatOutcome>, BackendError>> {
        self.many(Verb::Heartbeat, beats.len(), self.inner.heartbeat_many(beats)).await
    }
    async fn release(&self, release: &Release) -> Result<Timed<ReleaseOutcome>, BackendError> {
        self.call(Verb::Release, self.inner.release(release)).await
    }
    async fn release_many(&self, releases: &[Release]) -> Vec<Result<Timed<ReleaseOutcome>, BackendError>> {
        self.many(Verb::Release, releases.len(), self.inner.release_many(releases)).await
    }
    async fn active(&self, jobs: &[JobName]) -> Result<Timed<Vec<ActiveRun>>, BackendError> {
        self.call(Verb::Active, self.inner.active(jobs)).await
    }
    async fn unfinished(&self, jobs: &[JobName]) -> Result<Timed<Vec<ActiveRun>>, BackendError> {
        self.call(Verb::Active, self.inner.unfinished(jobs)).await
    }
    async fn set_paused(&self, job: &JobName, pause: Option<&Pause>) -> Result<(), BackendError> {
        self.call(Verb::Pause, self.inner.set_paused(job, pause)).await
    }
    async fn paused(&self, job: &JobName) -> Result<Option<Pause>, BackendError> {
        self.call(Verb::Pause, self.inner.paused(job)).await
    }
}

impl<Db, B: FinishIn<Db> + Clone> FinishIn<Db> for FaultyBackend<B> {}
