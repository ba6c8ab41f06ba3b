//! PostgreSQL: claims, leases and history in the database that an application has anyway.
//!
//! Each step is one message, and within it one call of a function that the backend made in the schema of its tables: the
//! job's row is locked, the clock is read, and what is read after that is what the one who had the lock before left.
//! Everything is remembered up to the trim mark; what a failover loses, a floor and a growing fence make up for.
//! PostgreSQL 9.5 or newer, also behind a pooler in transaction mode.

mod arrays;
mod client;
mod dialect;
#[cfg(feature = "postgres")]
mod env;
mod functions;

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "postgres")]
use sqlx::{PgConnection, PgPool};
#[cfg(feature = "postgres")]
use tokio::sync::Mutex;
use tokio::sync::OnceCell;

use self::client::Client;
pub use self::dialect::PostgresDialect;
#[cfg(feature = "postgres")]
use super::FinishIn;
#[cfg(feature = "postgres")]
use super::sql::TransactionalFinish;
#[cfg(feature = "postgres")]
use super::sql::clients::SqlxPostgres;
#[cfg(feature = "tokio-postgres")]
use super::sql::clients::TokioPostgres;
#[cfg(feature = "postgres")]
use super::sql::common::Wording;
use super::sql::{DEFAULT_TABLE, SqlBackend, SqlClient as _, Statement, Tables};
use super::{Backend, HistoryByAge, LeaseBackend, Leases, ServerInfo};
use crate::error::{BackendError, BackendErrorKind};
use crate::run::{
    ActiveRun, Beat, BeatOutcome, ClaimOutcome, Finish, FinishOutcome, KnownJob, ManualClaim, ManualOutcome, Pause,
    Record, Registered, Registration, Release, ReleaseOutcome, RunClaim, Timed, Trim,
};
use crate::slot::JobName;

const NAME: &str = "postgres";

type Store = SqlBackend<Arc<Client>, PostgresDialect>;

/// A lease backend on PostgreSQL 9.5 or newer.
///
/// Nothing connects before `start()`; then the tables, and the functions that work on them, are made if they are missing,
/// by any number of instances at once. They are in the schema that [`table`](Self::table) names, or else in the one that
/// the user's `search_path` leads to at that moment; later it does not matter.
///
/// | option | default | meaning |
/// |---|---|---|
/// | [`table`](Self::table) | `anarchon_runs` | the common name of the four tables, with or without a schema |
///
/// The backend has connections of its own, at most two, so leases depend neither on the application's runtime nor on its
/// queries. It prepares nothing and keeps no state in a session, as poolers in transaction mode require.
///
/// # A user who may not make tables
/// Start each release once as a user who may (in a migration step, say), then grant the application's user USAGE on the
/// schema and SELECT, INSERT, UPDATE and DELETE on the four tables. Where functions are not everybody's to call, it needs
/// EXECUTE on those whose names begin with the table's. Without all that, `start()` says what is missing.
///
#[cfg_attr(feature = "postgres", doc = "```")]
#[cfg_attr(not(feature = "postgres"), doc = "```ignore")]
/// use anarchon::PostgresBackend;
///
/// let backend = PostgresBackend::new("postgres://billing:secret@db.internal/billing").table("jobs.cron_runs");
/// assert!(!format!("{backend:?}").contains("secret"));
/// ```
#[derive(Debug)]
pub struct PostgresBackend {
    client: Arc<Client>,
    table: String,
    /// Made once the schema is known.
    store: OnceCell<Store>,
}

impl PostgresBackend {
    /// The database at a URL: `postgres://user:password@host:5432/database`. What it leaves out is taken from the `PG…`
    /// variables of the environment. What is wrong with it is an error of `start()`.
    #[cfg(feature = "postgres")]
    #[must_use]
    pub fn new(url: impl AsRef<str>) -> Self {
        Self::on(Client::Sqlx(SqlxPostgres::at(url.as_ref())))
    }

    /// The database that `DATABASE_URL` names, or else the `PG…` variables; where these are silent as well, `postgres`
    /// on `localhost`.
    #[cfg(feature = "postgres")]
    #[must_use]
    pub fn from_env() -> Self {
        Self::on(Client::Sqlx(env::client()))
    }

    /// The database of a pool that the application has. Only its address and settings are used: leases must not depend
    /// on the application's runtime or wait behind its queries. The pool is never closed.
    #[cfg(feature = "postgres")]
    #[must_use]
    pub fn from_pool(pool: &PgPool) -> Self {
        Self::on(Client::Sqlx(SqlxPostgres::from_pool(pool)))
    }

    /// A connection that the application has, on which our statements wait for each other and for the application's.
    /// `start()` warns about it: that can cost leases. It is never closed, and must not be in a transaction when its lock
    /// is given up.
    #[cfg(feature = "postgres")]
    #[must_use]
    pub fn from_connection(connection: Arc<Mutex<PgConnection>>) -> Self {
        Self::on(Client::Sqlx(SqlxPostgres::from_connection(connection)))
    }

    /// The database that settings of tokio-postgres lead to, by that crate. Without TLS; for that there is
    /// [`from_deadpool`](Self::from_deadpool).
    #[cfg(feature = "tokio-postgres")]
    #[must_use]
    pub fn from_tokio_postgres(config: tokio_postgres::Config) -> Self {
        Self::on(Client::Tokio(TokioPostgres::with_config(config)))
    }

    /// The database of a pool of deadpool-postgres that the application has. Its manager makes the connections, with its
    /// TLS, but they are ours and none of the pool's: leases must not depend on the application's runtime or wait behind
    /// its queries. The pool is never closed.
    #[cfg(feature = "tokio-postgres")]
    #[must_use]
    pub fn from_deadpool(pool: &deadpool_postgres::Pool) -> Self {
        Self::on(Client::Tokio(TokioPostgres::from_pool(pool)))
    }

    fn on(client: Client) -> Self {
        Self { client: Arc::new(client), table: DEFAULT_TABLE.to_owned(), store: OnceCell::new() }
    }

    /// Uses tables of another common name: `cron_runs`, or `jobs.cron_runs` in a schema that exists. ASCII letters,
    /// digits and `_`, at most 48 of them after the schema. Anything else is an error of `start()`.
    #[must_use]
    pub fn table(self, name: impl Into<String>) -> Self {
        Self { table: name.into(), store: OnceCell::new(), ..self }
    }

    /// The store, on tables whose schema is known: another client of the same pooled session may change the path on which
    /// names are looked for.
    async fn store(&self) -> Result<&Store, BackendError> {
        self.store.get_or_try_init(|| self.make_store()).await
    }

    async fn make_store(&self) -> Result<Store, BackendError> {
        let config = |fault: String| BackendError::new(NAME, BackendErrorKind::Config, fault);
        let dialect = PostgresDialect::new();
        let tables = Tables::new(&self.table, &dialect).map_err(config)?;
        let table = match &tables.schema {
            Some(_) => self.table.clone(),
            None => {
                let schema = self.schema_of(&tables).await?;
                let table = format!("{schema}.{}", self.table);
                Tables::new(&table, &dialect).map_err(|fault| {
                    config(format!("{fault}; the user's `search_path` leads to that schema, name another one"))
                })?;
                table
            }
        };
        Ok(SqlBackend::new(NAME, Arc::clone(&self.client), dialect).table(&table))
    }

    /// The schema of the tables: where they are found, or else where they would be made.
    async fn schema_of(&self, tables: &Tables) -> Result<String, BackendError> {
        // What another client of a pooled session has set is put aside.
        let statements = vec![
            Statement::new("SET LOCAL search_path TO DEFAULT", Vec::new()),
            Statement::new(
                format!(
                    "SELECT coalesce((SELECT n.nspname::text FROM pg_class c JOIN pg_namespace n \
                     ON n.oid = c.relnamespace WHERE c.oid = to_regclass('{}')), current_schema()::text)",
                    tables.meta
                ),
                Vec::new(),
            ),
        ];
        let failed = |error: super::sql::SqlError| {
            let (kind, message, source) = error.into_parts();
            let error = BackendError::new(NAME, kind, message);
            match source {
                Some(source) => error.with_source(source),
                None => error,
            }
        };
        let rows = self.client.batch(statements).await.map_err(failed)?;
        let schema = rows.first().map(|row| row.opt_text(0)).transpose().map_err(failed)?.flatten();
        schema.map(str::to_owned).ok_or_else(|| {
            let fault = "no schema of the user's `search_path` exists; name one, as in `jobs.cron_runs`";
            BackendError::new(NAME, BackendErrorKind::Config, fault)
        })
    }
}

#[cfg(feature = "postgres")]
impl Default for PostgresBackend {
    /// That of [`from_env`](Self::from_env).
    fn default() -> Self {
        Self::from_env()
    }
}

#[cfg(feature = "postgres")]
impl From<PgPool> for PostgresBackend {
    fn from(pool: PgPool) -> Self {
        Self::from_pool(&pool)
    }
}

#[cfg(feature = "tokio-postgres")]
impl From<deadpool_postgres::Pool> for PostgresBackend {
    fn from(pool: deadpool_postgres::Pool) -> Self {
        Self::from_deadpool(&pool)
    }
}

/// One error as the answer to each of several requests.
fn all_failed<T>(requests: usize, error: &BackendError) -> Vec<Result<T, BackendError>> {
    (0..requests).map(|_| Err(error.to_shared())).collect()
}

impl Backend for PostgresBackend {
    type Strength = Leases;

    fn name(&self) -> &str {
        NAME
    }

    fn history_by_age(&self) -> bool {
        true
    }

    async fn connect(&self) -> Result<ServerInfo, BackendError> {
        self.store().await?.connect().await
    }

    async fn look(&self) -> Result<ServerInfo, BackendError> {
        self.store().await?.look().await
    }

    async fn known(&self, jobs: &[JobName]) -> Result<Option<Vec<KnownJob>>, BackendError> {
        self.store().await?.known(jobs).await
    }

    async fn clock(&self) -> Result<Option<i64>, BackendError> {
        self.store().await?.clock().await
    }

    async fn register(
        &self,
        jobs: &[Registration],
        forget_after: Duration,
    ) -> Result<Timed<Vec<Registered>>, BackendError> {
        self.store().await?.register(jobs, forget_after).await
    }

    async fn claim_manual(&self, claim: &ManualClaim) -> Result<Timed<ManualOutcome>, BackendError> {
        self.store().await?.claim_manual(claim).await
    }

    async fn finish(&self, finish: &Finish) -> Result<Timed<FinishOutcome>, BackendError> {
        self.store().await?.finish(finish).await
    }

    async fn finish_many(&self, finishes: &[Finish]) -> Vec<Result<Timed<FinishOutcome>, BackendError>> {
        match self.store().await {
            Ok(store) => store.finish_many(finishes).await,
            Err(error) => all_failed(finishes.len(), &error),
        }
    }

    async fn history(&self, job: &JobName, limit: u32) -> Result<Vec<Record>, BackendError> {
        self.store().await?.history(job, limit).await
    }

    async fn trim(&self, jobs: &[Trim]) -> Result<(), BackendError> {
        self.store().await?.trim(jobs).await
    }

    #[cfg(feature = "postgres")]
    fn transactional_finish(&self) -> Option<TransactionalFinish<'_>> {
        Some(TransactionalFinish::worded::<sqlx::Postgres>(self))
    }

    async fn close(&self) {
        self.client.close().await;
    }
}

/// Asked for before the schema is known, and used when it is.
#[cfg(feature = "postgres")]
impl Wording for PostgresBackend {
    fn text(&self, finish: &Finish, mark: i64) -> Result<String, BackendError> {
        match self.store.get() {
            Some(store) => store.text(finish, mark),
            None => Err(BackendError::new(NAME, BackendErrorKind::Refused, "it has not connected yet")),
        }
    }
}

#[cfg(feature = "postgres")]
impl FinishIn<sqlx::Postgres> for PostgresBackend {}

impl LeaseBackend for PostgresBackend {
    async fn claim(&self, claim: &RunClaim) -> Result<Timed<ClaimOutcome>, BackendError> {
        self.store().await?.claim(claim).await
    }

    async fn claim_many(&self, claims: &[RunClaim]) -> Vec<Result<Timed<ClaimOutcome>, BackendError>> {
        match self.store().await {
            Ok(store) => store.claim_many(claims).await,
            Err(error) => all_failed(claims.len(), &error),
        }
    }

    async fn heartbeat(&self, beat: &Beat) -> Result<Timed<BeatOutcome>, BackendError> {
        self.store().await?.heartbeat(beat).await
    }

    async fn heartbeat_many(&self, beats: &[Beat]) -> Vec<Result<Timed<BeatOutcome>, BackendError>> {
        match self.store().await {
            Ok(store) => store.heartbeat_many(beats).await,
            Err(error) => all_failed(beats.len(), &error),
        }
    }

    async fn release(&self, release: &Release) -> Result<Timed<ReleaseOutcome>, BackendError> {
        self.store().await?.release(release).await
    }

    async fn release_many(&self, releases: &[Release]) -> Vec<Result<Timed<ReleaseOutcome>, BackendError>> {
        match self.store().await {
            Ok(store) => store.release_many(releases).await,
            Err(error) => all_failed(releases.len(), &error),
        }
    }

    async fn active(&self, jobs: &[JobName]) -> Result<Timed<Vec<ActiveRun>>, BackendError> {
        self.store().await?.active(jobs).await
    }

    async fn unfinished(&self, jobs: &[JobName]) -> Result<Timed<Vec<ActiveRun>>, BackendError> {
        self.store().await?.unfinished(jobs).await
    }

    async fn set_paused(&self, job: &JobName, pause: Option<&Pause>) -> Result<(), BackendError> {
        self.store().await?.set_paused(job, pause).await
    }

    async fn paused(&self, job: &JobName) -> Result<Option<Pause>, BackendError> {
        self.store().await?.paused(job).await
    }
}

impl HistoryByAge for PostgresBackend {}
