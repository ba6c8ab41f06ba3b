//! Backends chosen while the program runs, by a URL.

use std::sync::Arc;
use std::time::Duration;

use super::sql::TransactionalFinish;
use super::{
    Backend, ClaimBackend, ClaimOnly, DynStore, FinishIn, HistoryByAge, JobLimits, JobRefusal, LeaseBackend, Leases,
    ServerInfo, only,
};
use crate::catalogue;
use crate::error::{BackendError, Error};
use crate::run::{
    ActiveRun, Beat, BeatOutcome, ClaimOutcome, Finish, FinishOutcome, KnownJob, ManualClaim, ManualOutcome, Pause,
    Record, Registered, Registration, Release, ReleaseOutcome, RunClaim, SlotClaim, SlotOutcome, Timed, Trim,
};
use crate::slot::JobName;

/// A lease backend chosen by its URL; `anarchon::main!()` uses it.
#[derive(Clone, Debug)]
pub struct AnyBackend(Arc<dyn DynStore>);

/// A claim-only backend chosen by its URL.
#[derive(Clone, Debug)]
pub struct AnyClaimBackend(Arc<dyn DynStore>);

impl AnyBackend {
    /// The lease backend that `url` names, by its scheme. Nothing connects before `start()`.
    ///
    /// # Errors
    /// [`Error::Url`] when the scheme is unknown, its feature is not compiled in, or its store only claims.
    pub fn connect(url: &str) -> Result<Self, Error> {
        let store = catalogue::open(url)?;
        if store.leases() { Ok(Self(store)) } else { Err(Error::Url(catalogue::only_claims(url, store.name()))) }
    }

    /// Wraps a backend that was made by hand.
    pub fn new(backend: impl LeaseBackend) -> Self {
        Self(super::AnyStrength::<Leases>::erase(backend))
    }
}

impl AnyClaimBackend {
    /// The claim-only backend that `url` names, by its scheme. Nothing connects before `start()`.
    ///
    /// # Errors
    /// [`Error::Url`] when the scheme is unknown, its feature is not compiled in, or its store holds leases.
    pub fn connect(url: &str) -> Result<Self, Error> {
        let store = catalogue::open(url)?;
        if store.leases() {
            Err(Error::Url(format!("`{}` holds leases; use `AnyBackend`, which offers them", store.name())))
        } else {
            Ok(Self(store))
        }
    }

    /// Wraps a backend that was made by hand.
    pub fn new(backend: impl ClaimBackend) -> Self {
        Self(super::AnyStrength::<ClaimOnly>::erase(backend))
    }
}

macro_rules! common {
    () => {
        fn name(&self) -> &str {
            self.0.name()
        }
        fn memory(&self) -> Option<Duration> {
            self.0.memory()
        }
        fn history_by_age(&self) -> bool {
            self.0.history_by_age()
        }
        fn check_job(&self, limits: &JobLimits) -> Result<(), JobRefusal> {
            self.0.check_job(limits)
        }
        fn transactional_finish(&self) -> Option<TransactionalFinish<'_>> {
            self.0.transactional_finish()
        }
        async fn connect(&self) -> Result<ServerInfo, BackendError> {
            self.0.connect().await
        }
        async fn look(&self) -> Result<ServerInfo, BackendError> {
            self.0.look().await
        }
        async fn known(&self, jobs: &[JobName]) -> Result<Option<Vec<KnownJob>>, BackendError> {
            self.0.known(jobs).await
        }
        async fn clock(&self) -> Result<Option<i64>, BackendError> {
            self.0.clock().await
        }
        async fn register(
            &self,
            jobs: &[Registration],
            forget_after: Duration,
        ) -> Result<Timed<Vec<Registered>>, BackendError> {
            self.0.register(jobs, forget_after).await
        }
        async fn claim_manual(&self, claim: &ManualClaim) -> Result<Timed<ManualOutcome>, BackendError> {
            self.0.claim_manual(claim).await
        }
        async fn finish(&self, finish: &Finish) -> Result<Timed<FinishOutcome>, BackendError> {
            only(self.0.name(), self.0.finish_many(std::slice::from_ref(finish)).await)
        }
        async fn finish_many(&self, finishes: &[Finish]) -> Vec<Result<Timed<FinishOutcome>, BackendError>> {
            self.0.finish_many(finishes).await
        }
        async fn history(&self, job: &JobName, limit: u32) -> Result<Vec<Record>, BackendError> {
            self.0.history(job, limit).await
        }
        async fn trim(&self, jobs: &[Trim]) -> Result<(), BackendError> {
            self.0.trim(jobs).await
        }
        async fn close(&self) {
            self.0.close().await;
        }
    };
}

impl Backend for AnyBackend {
    type Strength = Leases;
    common!();
}

impl Backend for AnyClaimBackend {
    type Strength = ClaimOnly;
    common!();
}

impl LeaseBackend for AnyBackend {
    async fn claim(&self, claim: &RunClaim) -> Result<Timed<ClaimOutcome>, BackendError> {
        only(self.0.name(), self.0.claim_many(std::slice::from_ref(claim)).await)
    }
    async fn claim_many(&self, claims: &[RunClaim]) -> Vec<Result<Timed<ClaimOutcome>, BackendError>> {
        self.0.claim_many(claims).await
    }
    async fn heartbeat(&self, beat: &Beat) -> Result<Timed<BeatOutcome>, BackendError> {
        only(self.0.name(), self.0.heartbeat_many(std::slice::from_ref(beat)).await)
    }
    async fn heartbeat_many(&self, beats: &[Beat]) -> Vec<Result<Timed<BeatOutcome>, BackendError>> {
        self.0.heartbeat_many(beats).await
    }
    async fn release(&self, release: &Release) -> Result<Timed<ReleaseOutcome>, BackendError> {
        only(self.0.name(), self.0.release_many(std::slice::from_ref(release)).await)
    }
    async fn release_many(&self, releases: &[Release]) -> Vec<Result<Timed<ReleaseOutcome>, BackendError>> {
        self.0.release_many(releases).await
    }
    async fn active(&self, jobs: &[JobName]) -> Result<Timed<Vec<ActiveRun>>, BackendError> {
        self.0.active(jobs).await
    }
    async fn unfinished(&self, jobs: &[JobName]) -> Result<Timed<Vec<ActiveRun>>, BackendError> {
        self.0.unfinished(jobs).await
    }
    async fn set_paused(&self, job: &JobName, pause: Option<&Pause>) -> Result<(), BackendError> {
        self.0.set_paused(job, pause).await
    }
    async fn paused(&self, job: &JobName) -> Result<Option<Pause>, BackendError> {
        self.0.paused(job).await
    }
}

/// Every store with leases that the catalogue knows trims by age.
impl HistoryByAge for AnyBackend {}

/// Which database it is, only the start of the program can tell.
impl<Db> FinishIn<Db> for AnyBackend {}

impl ClaimBackend for AnyClaimBackend {
    async fn claim(&self, claim: &SlotClaim) -> Result<Timed<SlotOutcome>, BackendError> {
        only(self.0.name(), self.claim_many(std::slice::from_ref(claim)).await)
    }
    async fn claim_many(&self, claims: &[SlotClaim]) -> Vec<Result<Timed<SlotOutcome>, BackendError>> {
        let claims: Vec<RunClaim> = claims.iter().map(run_claim).collect();
        let answers = self.0.claim_many(&claims).await;
        answers.into_iter().map(|answer| answer.map(as_slot_outcome)).collect()
    }
}

fn run_claim(claim: &SlotClaim) -> RunClaim {
    RunClaim {
        limit: claim.limit,
        valid_until: claim.valid_until,
        retention: claim.retention,
        ..RunClaim::new(claim.job.clone(), claim.slot, claim.token, claim.instance.clone())
    }
}

fn as_slot_outcome(answer: Timed<ClaimOutcome>) -> Timed<SlotOutcome> {
    use crate::run::Lateness;
    let value = match answer.value {
        ClaimOutcome::Won { .. } => SlotOutcome::Won,
        ClaimOutcome::Early { wait } => SlotOutcome::Early(wait),
        ClaimOutcome::Late(Lateness::Stale) => SlotOutcome::Stale,
        ClaimOutcome::Late(_) => SlotOutcome::Late,
        _ => SlotOutcome::Taken,
    };
    Timed { value, store_ms: answer.store_ms }
}
