//! The backends that users name are a [`SqlBackend`](super::SqlBackend) with its client and dialect chosen.

/// Passes every call of the contract on to the [`SqlBackend`](super::SqlBackend) inside. With a database of sqlx, runs can
/// be finished inside its transactions, where the predicate holds: that the application has a way to the same database.
macro_rules! front {
    ($backend:ty $(, $database:ty, $shared:expr)?) => {
        const _: () = {
            use std::time::Duration;

            use $crate::backend::{Backend, HistoryByAge, LeaseBackend, Leases, ServerInfo};
            use $crate::error::BackendError;
            use $crate::run::{
                ActiveRun, Beat, BeatOutcome, ClaimOutcome, Finish, FinishOutcome, KnownJob, ManualClaim, ManualOutcome, Pause,
                Record, Registered, Registration, Release, ReleaseOutcome, RunClaim, Timed, Trim,
            };
            use $crate::slot::JobName;

            type Many<T> = Vec<Result<Timed<T>, BackendError>>;

            impl Backend for $backend {
                type Strength = Leases;

                fn name(&self) -> &str {
                    self.0.name()
                }

                fn history_by_age(&self) -> bool {
                    self.0.history_by_age()
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
                    self.0.finish(finish).await
                }

                async fn finish_many(&self, finishes: &[Finish]) -> Many<FinishOutcome> {
                    self.0.finish_many(finishes).await
                }

                async fn history(&self, job: &JobName, limit: u32) -> Result<Vec<Record>, BackendError> {
                    self.0.history(job, limit).await
                }

                async fn trim(&self, jobs: &[Trim]) -> Result<(), BackendError> {
                    self.0.trim(jobs).await
                }

                $(fn transactional_finish(&self) -> Option<$crate::backend::sql::TransactionalFinish<'_>> {
                    let shared: fn(&_) -> bool = $shared;
                    let finish = || $crate::backend::sql::TransactionalFinish::new::<$database, _, _>(&self.0);
                    shared(self.0.client()).then(finish)
                })?

                async fn close(&self) {
                    self.0.close().await;
                }
            }

            $(impl $crate::backend::FinishIn<$database> for $backend {})?

            impl LeaseBackend for $backend {
                async fn claim(&self, claim: &RunClaim) -> Result<Timed<ClaimOutcome>, BackendError> {
                    self.0.claim(claim).await
                }

                async fn claim_many(&self, claims: &[RunClaim]) -> Many<ClaimOutcome> {
                    self.0.claim_many(claims).await
                }

                async fn heartbeat(&self, beat: &Beat) -> Result<Timed<BeatOutcome>, BackendError> {
                    self.0.heartbeat(beat).await
                }

                async fn heartbeat_many(&self, beats: &[Beat]) -> Many<BeatOutcome> {
                    self.0.heartbeat_many(beats).await
                }

                async fn release(&self, release: &Release) -> Result<Timed<ReleaseOutcome>, BackendError> {
                    self.0.release(release).await
                }

                async fn release_many(&self, releases: &[Release]) -> Many<ReleaseOutcome> {
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

            impl HistoryByAge for $backend {}
        };
    };
}

pub(crate) use front;
