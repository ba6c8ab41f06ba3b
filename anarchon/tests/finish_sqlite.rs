//! Handlers that finish their run inside their own transaction, on an SQLite file, as users write them.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anarchon::backend::SqliteDialect;
use anarchon::backend::sql::SqlBackend;
use anarchon::backend::sql::clients::SqlxSqlite;
use anarchon::{
    AnyBackend, AttemptRecord, AttemptStatus, Context, Data, Error, Finish, FinishError, MemoryBackend, Scheduler,
    SqliteBackend, State, Status, Token,
};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{Connection as _, Sqlite, SqlitePool};

/// A directory with the database of a service, and its pool.
struct Service {
    directory: PathBuf,
    pool: SqlitePool,
}

impl Service {
    async fn new() -> Self {
        let directory = std::env::temp_dir().join(format!("anarchon-finish-{}", Token::random()));
        std::fs::create_dir(&directory).unwrap();
        let pool = pool(&directory.join("service.db")).await;
        Self { directory, pool }
    }

    async fn scheduler(&self) -> Scheduler<SqliteBackend> {
        let builder = Scheduler::builder(SqliteBackend::from_pool(self.pool.clone())).state(self.pool.clone());
        builder.start().await.unwrap()
    }

    async fn effects(&self) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM effects").fetch_one(&self.pool).await.unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.directory));
    }
}

async fn pool(path: &std::path::Path) -> SqlitePool {
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
    let options = options.journal_mode(sqlx::sqlite::SqliteJournalMode::Wal).busy_timeout(Duration::from_millis(200));
    let pool = SqlitePool::connect_with(options).await.unwrap();
    sqlx::query("CREATE TABLE effects (slot INTEGER NOT NULL)").execute(&pool).await.unwrap();
    pool
}

/// Runs a job by hand to its end, and returns what became of it.
async fn run<B>(scheduler: &Scheduler<B>, job: &str) -> AttemptRecord {
    let run = scheduler.run_now(job).await.unwrap();
    let status = run.finished().await.unwrap();
    let last = scheduler.last_run(job).await.unwrap().unwrap();
    assert_eq!(last.status, Some(status));
    last
}

#[derive(Clone, Copy, PartialEq)]
enum Mistake {
    None,
    Forgets,
    RollsBack,
    FailsAfterwards,
    Savepoint,
}

async fn bill(
    ctx: Context,
    finish: Finish<Sqlite>,
    Data(mistake): Data<Mistake>,
    State(pool): State<SqlitePool>,
) -> Result<(), anarchon::BoxError> {
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    sqlx::query("INSERT INTO effects (slot) VALUES (?)").bind(ctx.slot_ms()).execute(&mut *tx).await?;
    if mistake == Mistake::Savepoint {
        let mut inner = tx.begin().await?;
        finish.commit_with(&mut inner).await?;
        inner.rollback().await?;
        tx.commit().await?;
        return Ok(());
    }
    finish.commit_with(&mut tx).await?;
    match mistake {
        Mistake::Forgets => {}
        Mistake::RollsBack => tx.rollback().await?,
        _ => tx.commit().await?,
    }
    if mistake == Mistake::FailsAfterwards { Err("the mail server is down".into()) } else { Ok(()) }
}

async fn billed(mistake: Mistake) -> (AttemptRecord, i64) {
    let service = Service::new().await;
    let scheduler = service.scheduler().await;
    scheduler.every("bill", "1h", bill).data(mistake).add().await.unwrap();
    let record = run(&scheduler, "bill").await;
    scheduler.stop().await.unwrap();
    (record, service.effects().await)
}

#[tokio::test]
async fn what_a_handler_writes_and_its_end_are_committed_together() {
    let (record, effects) = billed(Mistake::None).await;
    assert_eq!((record.status, record.run_status, effects), (Some(AttemptStatus::Done), Some(Status::Done), 1));
}

#[tokio::test]
async fn a_handler_that_does_not_commit_has_failed_and_has_done_nothing() {
    for mistake in [Mistake::Forgets, Mistake::RollsBack] {
        let (record, effects) = billed(mistake).await;
        assert_eq!((record.status, record.run_status, effects), (Some(AttemptStatus::Failed), Some(Status::Failed), 0));
        assert_eq!(record.error.as_deref(), Some("the transaction was not committed"));
    }
}

#[tokio::test]
async fn a_handler_that_fails_after_its_commit_is_done_all_the_same() {
    let (record, effects) = billed(Mistake::FailsAfterwards).await;
    assert_eq!((record.status, record.error, effects), (Some(AttemptStatus::Done), None, 1));
}

#[tokio::test]
async fn a_savepoint_that_is_rolled_back_takes_the_end_with_it() {
    let (record, _) = billed(Mistake::Savepoint).await;
    assert_eq!(record.status, Some(AttemptStatus::Failed));
}

#[tokio::test]
async fn a_handler_that_never_calls_it_is_finished_as_usual() {
    let service = Service::new().await;
    let scheduler = service.scheduler().await;
    scheduler.every("look", "1h", async |_: Finish<Sqlite>| {}).add().await.unwrap();
    assert_eq!(run(&scheduler, "look").await.status, Some(AttemptStatus::Done));
    scheduler.stop().await.unwrap();
}

/// Runs a handler that cannot mark its run, and returns why.
async fn refused<F>(
    service: &Service,
    attempt: impl Fn(Finish<Sqlite>, SqlitePool) -> F + Send + Sync + 'static,
) -> FinishError
where
    F: Future<Output = Result<(), FinishError>> + Send + 'static,
{
    let scheduler = service.scheduler().await;
    let seen = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&seen);
    let handler = move |finish: Finish<Sqlite>, State(pool): State<SqlitePool>| {
        let (attempt, keep) = (attempt(finish, pool), Arc::clone(&keep));
        async move {
            *keep.lock().unwrap() = attempt.await.err();
        }
    };
    scheduler.every("job", "1h", handler).add().await.unwrap();
    let record = run(&scheduler, "job").await;
    scheduler.stop().await.unwrap();
    assert_eq!(record.status, Some(AttemptStatus::Failed), "it was called, so only the store can say done");
    seen.lock().unwrap().take().unwrap()
}

#[tokio::test]
async fn a_deferred_transaction_that_came_too_late_to_write_is_told_how_to_begin() {
    let service = Service::new().await;
    let error = refused(&service, async |finish, pool| {
        let mut tx = pool.begin().await.unwrap();
        let _: i64 = sqlx::query_scalar("SELECT count(*) FROM effects").fetch_one(&mut *tx).await.unwrap();
        sqlx::query("INSERT INTO effects (slot) VALUES (1)").execute(&pool).await.unwrap();
        finish.commit_with(&mut tx).await
    });
    let error = error.await;
    assert!(matches!(error, FinishError::CannotWrite { .. }), "{error:?}");
    assert!(error.to_string().contains("BEGIN IMMEDIATE"), "{error}");
}

#[tokio::test]
async fn a_transaction_beside_another_writer_is_told_how_to_begin() {
    let service = Service::new().await;
    let error = refused(&service, async |finish, pool| {
        let _writer = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
        let mut tx = pool.begin().await.unwrap();
        finish.commit_with(&mut tx).await
    });
    assert!(error.await.to_string().contains("BEGIN IMMEDIATE"));
}

#[tokio::test]
async fn a_deferred_transaction_that_can_write_is_as_good() {
    let service = Service::new().await;
    let scheduler = service.scheduler().await;
    let handler = async |finish: Finish<Sqlite>, State(pool): State<SqlitePool>| {
        let mut tx = pool.begin().await?;
        finish.commit_with(&mut tx).await?;
        tx.commit().await?;
        Ok::<_, anarchon::BoxError>(())
    };
    scheduler.every("job", "1h", handler).add().await.unwrap();
    assert_eq!(run(&scheduler, "job").await.status, Some(AttemptStatus::Done));
    scheduler.stop().await.unwrap();
}

#[tokio::test]
async fn a_read_only_connection_is_refused() {
    let service = Service::new().await;
    let path = service.directory.join("service.db");
    let error = refused(&service, move |finish, _| {
        let path = path.clone();
        async move {
            let options = SqliteConnectOptions::new().filename(path).read_only(true);
            let mut tx = SqlitePool::connect_with(options).await.unwrap().begin().await.unwrap();
            finish.commit_with(&mut tx).await
        }
    });
    assert!(error.await.to_string().contains("read-only"));
}

#[tokio::test]
async fn a_transaction_of_another_database_marks_nothing() {
    let service = Service::new().await;
    let path = service.directory.join("other.db");
    let error = refused(&service, move |finish, _| {
        let path = path.clone();
        async move {
            let mut tx = pool(&path).await.begin().await.unwrap();
            finish.commit_with(&mut tx).await
        }
    });
    let error = error.await;
    assert!(matches!(error, FinishError::Database(_)) && error.to_string().contains("no such table"), "{error}");
}

#[tokio::test]
async fn a_database_in_memory_finishes_runs_through_the_pool_that_it_lives_in() {
    let memory = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await.unwrap();
    let scheduler = Scheduler::builder(SqliteBackend::from_pool(memory.clone())).state(memory).start().await.unwrap();
    let handler = async |finish: Finish<Sqlite>, State(pool): State<SqlitePool>| {
        let mut tx = pool.begin().await?;
        finish.commit_with(&mut tx).await?;
        tx.commit().await?;
        Ok::<_, anarchon::BoxError>(())
    };
    scheduler.every("job", "1h", handler).add().await.unwrap();
    assert_eq!(run(&scheduler, "job").await.status, Some(AttemptStatus::Done));
    scheduler.stop().await.unwrap();
}

#[tokio::test]
async fn tables_of_another_name_are_found() {
    let service = Service::new().await;
    let backend = SqliteBackend::from_pool(service.pool.clone()).table("cron_runs");
    let scheduler = Scheduler::builder(backend).state(service.pool.clone()).start().await.unwrap();
    scheduler.every("bill", "1h", bill).data(Mistake::None).add().await.unwrap();
    assert_eq!(run(&scheduler, "bill").await.status, Some(AttemptStatus::Done));
    scheduler.stop().await.unwrap();
}

/// What only the start of the program can tell.
async fn refused_on(backend: AnyBackend) -> Error {
    let scheduler = Scheduler::builder(backend).start().await.unwrap();
    let refused = scheduler.every("bill", "1h", async |_: Finish<Sqlite>| {}).add().await.unwrap_err();
    scheduler.stop().await.unwrap();
    refused
}

#[tokio::test]
async fn a_store_that_is_not_that_database_refuses_the_job_naming_it_and_the_argument() {
    let error = refused_on(AnyBackend::new(MemoryBackend::new())).await;
    assert!(matches!(error, Error::OtherDatabase { .. }), "{error:?}");
    for word in ["`bill`", "`Finish<Sqlite>`", "`memory`", "finish_sqlite.rs:"] {
        assert!(error.to_string().contains(word), "no {word} in: {error}");
    }
}

#[tokio::test]
async fn a_store_that_only_speaks_like_that_database_refuses_the_job() {
    let service = Service::new().await;
    let client = SqlxSqlite::from_pool(service.pool.clone());
    let speaks_alike = SqlBackend::new("alike", client, SqliteDialect::new());
    let error = refused_on(AnyBackend::new(speaks_alike)).await;
    assert!(error.to_string().contains("`alike`"), "{error}");
}

#[tokio::test]
async fn a_database_in_memory_that_nobody_else_reaches_refuses_the_job() {
    let error = refused_on(AnyBackend::new(SqliteBackend::new("sqlite::memory:"))).await;
    assert!(matches!(error, Error::OtherDatabase { .. }), "{error:?}");
}

#[tokio::test]
async fn a_store_by_url_that_is_that_database_takes_the_job() {
    let service = Service::new().await;
    let url = format!("sqlite:{}", service.directory.join("service.db").display());
    let scheduler =
        Scheduler::builder(AnyBackend::connect(&url).unwrap()).state(service.pool.clone()).start().await.unwrap();
    scheduler.every("bill", "1h", bill).data(Mistake::None).add().await.unwrap();
    assert_eq!(run(&scheduler, "bill").await.status, Some(AttemptStatus::Done));
    scheduler.stop().await.unwrap();
}
