//! SQLite: claims, leases and history in one file that several processes of a machine share.
//!
//! Each step is one transaction that begins with the write lock (`BEGIN IMMEDIATE`), sent as one text in one call of
//! the connection's thread. The file remembers everything up to its trim mark, through kills of any process; after a
//! power cut the last moments may be missing, as the write-ahead log is not synced at each commit. SQLite 3.35 or newer.

mod dialect;
#[cfg(all(test, feature = "testing"))]
mod tests;

use std::time::Duration;

use sqlx::SqlitePool;

pub use self::dialect::SqliteDialect;
use super::sql::SqlBackend;
use super::sql::clients::SqlxSqlite;
use super::{Backend, HistoryByAge, LeaseBackend, Leases, ServerInfo};
use crate::error::BackendError;
use crate::run::{
    ActiveRun, Beat, BeatOutcome, ClaimOutcome, Finish, FinishOutcome, ManualClaim, ManualOutcome, Pause, Record,
    Registered, Registration, Release, ReleaseOutcome, RunClaim, Timed, Trim,
};
use crate::slot::JobName;

/// The file that is used when none is named.
const DEFAULT_PATH: &str = "./anarchon.db";

/// A lease backend on an SQLite file.
///
/// Processes of one machine coordinate through the same file; one on a network drive does not do, as its locks cannot
/// be trusted. Nothing is opened before `start()`; then the file and the tables are made if they are missing, on a
/// connection of the backend's own.
///
/// | option | default | meaning |
/// |---|---|---|
/// | [`table`](Self::table) | `anarchon_runs` | the common name of the four tables |
/// | [`busy_timeout`](Self::busy_timeout) | 5 s | how long a call waits for other writers |
///
/// ```
/// use anarchon::SqliteBackend;
///
/// let backend = SqliteBackend::new("/var/lib/billing/jobs.db").table("cron_runs");
/// # drop(backend);
/// ```
#[derive(Debug)]
pub struct SqliteBackend(SqlBackend<SqlxSqlite, SqliteDialect>);

impl SqliteBackend {
    /// The database at a path, or at a URL: `sqlite:jobs.db`, `sqlite:///var/lib/jobs.db?mode=rw`, `file:jobs.db`.
    ///
    /// The file is made when it is missing, its directory is not. With `mode=rw` in the URL the file must be there.
    /// What is wrong with the location, or the file, is an error of `start()`.
    #[must_use]
    pub fn new(location: impl AsRef<str>) -> Self {
        Self::on(SqlxSqlite::at(location.as_ref()))
    }

    /// The database of a pool that the application has.
    ///
    /// Only its address and settings are used: leases must not depend on the application's runtime or wait behind its
    /// queries, so the backend opens a connection of its own. A database in memory has no address; it is used through
    /// the pool itself, and `start()` warns about it. The pool is never closed.
    #[must_use]
    pub fn from_pool(pool: SqlitePool) -> Self {
        Self::on(SqlxSqlite::from_pool(pool))
    }

    fn on(client: SqlxSqlite) -> Self {
        Self(SqlBackend::new("sqlite", client, SqliteDialect::new()))
    }

    /// Uses tables of another common name: ASCII letters, digits and `_`, at most 48. Anything else is an error of
    /// `start()`.
    #[must_use]
    pub fn table(self, name: impl AsRef<str>) -> Self {
        Self(self.0.table(name.as_ref()))
    }

    /// How long a call waits for other writers of the file before it is answered "busy" and tried again: 5 s unless
    /// set.
    #[must_use]
    pub fn busy_timeout(self, timeout: Duration) -> Self {
        Self(self.0.map_client(|client| client.busy_timeout(timeout)))
    }
}

impl Default for SqliteBackend {
    /// The file `./anarchon.db`.
    fn default() -> Self {
        Self::new(DEFAULT_PATH)
    }
}

impl From<SqlitePool> for SqliteBackend {
    fn from(pool: SqlitePool) -> Self {
        Self::from_pool(pool)
    }
}

impl Backend for SqliteBackend {
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
}

impl LeaseBackend for SqliteBackend {
    async fn claim(&self, claim: &RunClaim) -> Result<Timed<ClaimOutcome>, BackendError> {
        self.0.claim(claim).await
    }

    async fn claim_many(&self, claims: &[RunClaim]) -> Vec<Result<Timed<ClaimOutcome>, BackendError>> {
        self.0.claim_many(claims).await
    }

    async fn heartbeat(&self, beat: &Beat) -> Result<Timed<BeatOutcome>, BackendError> {
        self.0.heartbeat(beat).await
    }

    async fn heartbeat_many(&self, beats: &[Beat]) -> Vec<Result<Timed<BeatOutcome>, BackendError>> {
        self.0.heartbeat_many(beats).await
    }

    async fn release(&self, release: &Release) -> Result<Timed<ReleaseOutcome>, BackendError> {
        self.0.release(release).await
    }

    async fn release_many(&self, releases: &[Release]) -> Vec<Result<Timed<ReleaseOutcome>, BackendError>> {
        self.0.release_many(releases).await
    }

    async fn active(&self, jobs: &[JobName]) -> Result<Timed<Vec<ActiveRun>>, BackendError> {
        self.0.active(jobs).await
    }

    async fn set_paused(&self, job: &JobName, pause: Option<&Pause>) -> Result<(), BackendError> {
        self.0.set_paused(job, pause).await
    }

    async fn paused(&self, job: &JobName) -> Result<Option<Pause>, BackendError> {
        self.0.paused(job).await
    }
}

impl HistoryByAge for SqliteBackend {}
