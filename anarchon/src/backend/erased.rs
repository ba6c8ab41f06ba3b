//! One object-safe form of every backend, so that the engine is written once and compiled once.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::sql::TransactionalFinish;
use super::{Backend, ClaimBackend, ClaimOnly, JobLimits, JobRefusal, LeaseBackend, Leases, ServerInfo};
use crate::error::{BackendError, BackendErrorKind};
use crate::run::{
    ActiveRun, Beat, BeatOutcome, ClaimOutcome, Finish, FinishOutcome, KnownJob, Lateness, ManualClaim, ManualOutcome,
    Pause, Reason, Record, Registered, Registration, Release, ReleaseOutcome, RunClaim, SlotClaim, SlotOutcome, Status,
    Timed, Trim,
};
use crate::slot::JobName;

type Answers<T> = Vec<Result<Timed<T>, BackendError>>;

/// Any backend behind a pointer. Implemented for you; a claim-only store answers the calls about leases with an error.
#[allow(missing_docs)]
pub trait DynStore: Send + Sync + 'static {
    fn name(&self) -> &str;
    fn leases(&self) -> bool;
    fn memory(&self) -> Option<Duration>;
    fn history_by_age(&self) -> bool;
    fn check_job(&self, limits: &JobLimits) -> Result<(), JobRefusal>;
    fn transactional_finish(&self) -> Option<TransactionalFinish<'_>>;
    fn connect(&self) -> BoxFuture<'_, Result<ServerInfo, BackendError>>;
    fn look(&self) -> BoxFuture<'_, Result<ServerInfo, BackendError>>;
    fn known<'a>(&'a self, jobs: &'a [JobName]) -> BoxFuture<'a, Result<Option<Vec<KnownJob>>, BackendError>>;
    fn clock(&self) -> BoxFuture<'_, Result<Option<i64>, BackendError>>;
    fn register<'a>(
        &'a self,
        jobs: &'a [Registration],
        forget_after: Duration,
    ) -> BoxFuture<'a, Result<Timed<Vec<Registered>>, BackendError>>;
    fn claim_many<'a>(&'a self, claims: &'a [RunClaim]) -> BoxFuture<'a, Answers<ClaimOutcome>>;
    fn claim_manual<'a>(&'a self, claim: &'a ManualClaim) -> BoxFuture<'a, Result<Timed<ManualOutcome>, BackendError>>;
    fn heartbeat_many<'a>(&'a self, beats: &'a [Beat]) -> BoxFuture<'a, Answers<BeatOutcome>>;
    fn finish_many<'a>(&'a self, finishes: &'a [Finish]) -> BoxFuture<'a, Answers<FinishOutcome>>;
    fn release_many<'a>(&'a self, releases: &'a [Release]) -> BoxFuture<'a, Answers<ReleaseOutcome>>;
    fn active<'a>(&'a self, jobs: &'a [JobName]) -> BoxFuture<'a, Result<Timed<Vec<ActiveRun>>, BackendError>>;
    fn unfinished<'a>(&'a self, jobs: &'a [JobName]) -> BoxFuture<'a, Result<Timed<Vec<ActiveRun>>, BackendError>>;
    fn history<'a>(&'a self, job: &'a JobName, limit: u32) -> BoxFuture<'a, Result<Vec<Record>, BackendError>>;
    fn trim<'a>(&'a self, jobs: &'a [Trim]) -> BoxFuture<'a, Result<(), BackendError>>;
    fn set_paused<'a>(&'a self, job: &'a JobName, pause: Option<&'a Pause>) -> BoxFuture<'a, Result<(), BackendError>>;
    fn paused<'a>(&'a self, job: &'a JobName) -> BoxFuture<'a, Result<Option<Pause>, BackendError>>;
    fn close(&self) -> BoxFuture<'_, ()>;
}

impl fmt::Debug for dyn DynStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.name()).finish()
    }
}

/// A backend that is complete for its [`Strength`](super::Strength): with [`Leases`] it is a [`LeaseBackend`], with
/// [`ClaimOnly`] a [`ClaimBackend`]. Implemented for both; name it in generic code over the scheduler.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no complete backend: `LeaseBackend` or `ClaimBackend` is missing",
    label = "implement the trait that goes with its `Strength`"
)]
pub trait AnyStrength<S = <Self as Backend>::Strength>: Backend {
    #[doc(hidden)]
    fn erase(self) -> Arc<dyn DynStore>
    where
        Self: Sized;
}

impl<B: LeaseBackend> AnyStrength<Leases> for B {
    fn erase(self) -> Arc<dyn DynStore> {
        Arc::new(Erased(self))
    }
}

impl<B: ClaimBackend> AnyStrength<ClaimOnly> for B {
    fn erase(self) -> Arc<dyn DynStore> {
        Arc::new(ErasedClaims(self))
    }
}

struct Erased<B>(B);
struct ErasedClaims<B>(B);

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
        fn connect(&self) -> BoxFuture<'_, Result<ServerInfo, BackendError>> {
            self.0.connect().boxed()
        }
        fn look(&self) -> BoxFuture<'_, Result<ServerInfo, BackendError>> {
            self.0.look().boxed()
        }
        fn known<'a>(&'a self, jobs: &'a [JobName]) -> BoxFuture<'a, Result<Option<Vec<KnownJob>>, BackendError>> {
            self.0.known(jobs).boxed()
        }
        fn clock(&self) -> BoxFuture<'_, Result<Option<i64>, BackendError>> {
            self.0.clock().boxed()
        }
        fn register<'a>(
            &'a self,
            jobs: &'a [Registration],
            forget_after: Duration,
        ) -> BoxFuture<'a, Result<Timed<Vec<Registered>>, BackendError>> {
            self.0.register(jobs, forget_after).boxed()
        }
        fn claim_manual<'a>(
            &'a self,
            claim: &'a ManualClaim,
        ) -> BoxFuture<'a, Result<Timed<ManualOutcome>, BackendError>> {
            self.0.claim_manual(claim).boxed()
        }
        fn finish_many<'a>(&'a self, finishes: &'a [Finish]) -> BoxFuture<'a, Answers<FinishOutcome>> {
            self.0.finish_many(finishes).boxed()
        }
        fn history<'a>(&'a self, job: &'a JobName, limit: u32) -> BoxFuture<'a, Result<Vec<Record>, BackendError>> {
            self.0.history(job, limit).boxed()
        }
        fn trim<'a>(&'a self, jobs: &'a [Trim]) -> BoxFuture<'a, Result<(), BackendError>> {
            self.0.trim(jobs).boxed()
        }
        fn close(&self) -> BoxFuture<'_, ()> {
            self.0.close().boxed()
        }
    };
}

impl<B: LeaseBackend> DynStore for Erased<B> {
    common!();

    fn leases(&self) -> bool {
        true
    }
    fn claim_many<'a>(&'a self, claims: &'a [RunClaim]) -> BoxFuture<'a, Answers<ClaimOutcome>> {
        self.0.claim_many(claims).boxed()
    }
    fn heartbeat_many<'a>(&'a self, beats: &'a [Beat]) -> BoxFuture<'a, Answers<BeatOutcome>> {
        self.0.heartbeat_many(beats).boxed()
    }
    fn release_many<'a>(&'a self, releases: &'a [Release]) -> BoxFuture<'a, Answers<ReleaseOutcome>> {
        self.0.release_many(releases).boxed()
    }
    fn active<'a>(&'a self, jobs: &'a [JobName]) -> BoxFuture<'a, Result<Timed<Vec<ActiveRun>>, BackendError>> {
        self.0.active(jobs).boxed()
    }
    fn unfinished<'a>(&'a self, jobs: &'a [JobName]) -> BoxFuture<'a, Result<Timed<Vec<ActiveRun>>, BackendError>> {
        self.0.unfinished(jobs).boxed()
    }
    fn set_paused<'a>(&'a self, job: &'a JobName, pause: Option<&'a Pause>) -> BoxFuture<'a, Result<(), BackendError>> {
        self.0.set_paused(job, pause).boxed()
    }
    fn paused<'a>(&'a self, job: &'a JobName) -> BoxFuture<'a, Result<Option<Pause>, BackendError>> {
        self.0.paused(job).boxed()
    }
}

impl<B: ClaimBackend> ErasedClaims<B> {
    fn no_leases(&self) -> BackendError {
        BackendError::new(self.0.name(), BackendErrorKind::Refused, "it only claims, and holds no leases")
    }
}

impl<B: ClaimBackend> DynStore for ErasedClaims<B> {
    common!();

    fn leases(&self) -> bool {
        false
    }
    fn claim_many<'a>(&'a self, claims: &'a [RunClaim]) -> BoxFuture<'a, Answers<ClaimOutcome>> {
        async move {
            let claims: Vec<SlotClaim> = claims.iter().map(slot_claim).collect();
            let answers = self.0.claim_many(&claims).await;
            answers.into_iter().map(|answer| answer.map(as_run_outcome)).collect()
        }
        .boxed()
    }
    fn heartbeat_many<'a>(&'a self, beats: &'a [Beat]) -> BoxFuture<'a, Answers<BeatOutcome>> {
        async move { beats.iter().map(|_| Err(self.no_leases())).collect() }.boxed()
    }
    fn release_many<'a>(&'a self, releases: &'a [Release]) -> BoxFuture<'a, Answers<ReleaseOutcome>> {
        async move { releases.iter().map(|_| Err(self.no_leases())).collect() }.boxed()
    }
    fn active<'a>(&'a self, _: &'a [JobName]) -> BoxFuture<'a, Result<Timed<Vec<ActiveRun>>, BackendError>> {
        async move { Err(self.no_leases()) }.boxed()
    }
    fn unfinished<'a>(&'a self, _: &'a [JobName]) -> BoxFuture<'a, Result<Timed<Vec<ActiveRun>>, BackendError>> {
        async move { Err(self.no_leases()) }.boxed()
    }
    fn set_paused<'a>(&'a self, _: &'a JobName, _: Option<&'a Pause>) -> BoxFuture<'a, Result<(), BackendError>> {
        async move { Err(self.no_leases()) }.boxed()
    }
    fn paused<'a>(&'a self, _: &'a JobName) -> BoxFuture<'a, Result<Option<Pause>, BackendError>> {
        async move { Ok(None) }.boxed()
    }
}

fn slot_claim(claim: &RunClaim) -> SlotClaim {
    SlotClaim {
        limit: claim.limit,
        valid_until: claim.valid_until,
        retention: claim.retention,
        ..SlotClaim::new(claim.job.clone(), claim.slot, claim.token, claim.instance.clone())
    }
}

fn as_run_outcome(answer: Timed<SlotOutcome>) -> Timed<ClaimOutcome> {
    let value = match answer.value {
        SlotOutcome::Won => ClaimOutcome::Won { attempt: 1, fence: None, reason: Reason::Scheduled, max_attempts: 1 },
        SlotOutcome::Taken => ClaimOutcome::Done { status: Status::Running },
        SlotOutcome::Early(wait) => ClaimOutcome::Early { wait },
        SlotOutcome::Late => ClaimOutcome::Late(Lateness::TooOld),
        SlotOutcome::Stale => ClaimOutcome::Late(Lateness::Stale),
    };
    Timed { value, store_ms: answer.store_ms }
}
