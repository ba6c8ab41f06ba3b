//! The same store through tokio-postgres, and with the connections of a deadpool-postgres pool's manager.

use anarchon::testing::conformance::{Fixture, Transactions};
use anarchon::{Backend as _, BackendError, BackendErrorKind, LeaseBackend as _, PostgresBackend};
use deadpool_postgres::{Manager, Pool};
use sqlx::{Connection as _, Executor as _, PgConnection, Transaction};
use tokio_postgres::{Config, NoTls};

use crate::place::{POOLED_1_18, POOLED_1_24, Place, Schema, V15, V18};
use crate::{claim, done, rival, won};

/// Ends all sessions of the database but the one that asks.
const END_ALL: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                       WHERE datname = current_database() AND pid <> pg_backend_pid()";

/// How the store reaches the server.
#[derive(Clone, Copy, Debug)]
enum Through {
    TokioPostgres,
    Deadpool,
}

impl Through {
    fn backend(self, url: &str) -> PostgresBackend {
        match self {
            Self::TokioPostgres => PostgresBackend::from_tokio_postgres(config(url)),
            Self::Deadpool => PostgresBackend::from_deadpool(&pool(url)),
        }
    }

    async fn schema(self, place: Place) -> Client {
        Client { schema: place.schema().await, through: self }
    }
}

fn config(url: &str) -> Config {
    url.parse().expect("a URL")
}

/// A pool of the application's that may hold one connection.
fn pool(url: &str) -> Pool {
    Pool::builder(Manager::new(config(url), NoTls)).max_size(1).build().expect("a pool")
}

/// A schema, and how it is reached.
struct Client {
    schema: Schema,
    through: Through,
}

impl Fixture for Client {
    type Backend = PostgresBackend;

    async fn backend(&self) -> PostgresBackend {
        self.through.backend(self.schema.url()).table(self.schema.table())
    }

    fn is_there(&self) -> bool {
        self.schema.is_there()
    }

    async fn clean_up(&self) {
        self.schema.clean_up().await;
    }
}

/// The application's transactions are those of sqlx, whatever the store's own connections are.
impl Transactions for Client {
    type Db = sqlx::Postgres;

    const LOCKS_ROWS: bool = Schema::LOCKS_ROWS;

    async fn begin(&self) -> Transaction<'static, sqlx::Postgres> {
        self.schema.begin().await
    }

    async fn begin_stricter(&self) -> Option<Transaction<'static, sqlx::Postgres>> {
        self.schema.begin_stricter().await
    }
}

anarchon::lease_conformance!(tokio_postgres_on_18, || Through::TokioPostgres.schema(V18));
anarchon::lease_conformance!(tokio_postgres_behind_pgbouncer_1_18, || Through::TokioPostgres.schema(POOLED_1_18));
anarchon::lease_conformance!(tokio_postgres_behind_pgbouncer_1_24, || Through::TokioPostgres.schema(POOLED_1_24));
anarchon::lease_conformance!(deadpool_on_18, || Through::Deadpool.schema(V18));
anarchon::history_by_age_conformance!(by_age_through_tokio_postgres, || Through::TokioPostgres.schema(V18));
anarchon::transactional_finish_conformance!(within_beside_tokio_postgres, || Through::TokioPostgres.schema(V18));

#[tokio::test]
async fn sessions_that_an_administrator_ended_are_replaced() {
    for through in [Through::TokioPostgres, Through::Deadpool] {
        let Some(database) = V18.database() else { return };
        let backend = through.backend(database.url());
        backend.connect().await.expect("a connection");
        let asked = claim("a", 1);
        assert!(won(&backend.claim(&asked).await.expect("an answer").value));
        let mut administrator = PgConnection::connect(database.url()).await.expect("a connection");
        assert_eq!(administrator.fetch_all(END_ALL).await.expect("an end").len(), 1, "a connection waits: {through:?}");
        // Its task may have seen the end already, or the call does.
        let mut answer = backend.claim(&asked).await;
        if let Err(error) = &answer {
            assert_eq!(error.kind(), BackendErrorKind::Unknown, "{error}");
            answer = backend.claim(&asked).await;
        }
        assert!(won(&answer.expect("an answer").value), "{through:?}");

        // A claim that waits for the job is ended in the middle of it: nothing of it is left.
        let mut transaction = administrator.begin().await.expect("a transaction");
        let lock = "SELECT 1 FROM anarchon_runs_jobs WHERE job = 'a' AND ident = '' FOR UPDATE";
        transaction.execute(lock).await.expect("a lock");
        let mut next = claim("a", 2);
        next.overlap = anarchon::Overlap::Allow;
        let (ended, ()) = tokio::join!(backend.claim(&next), one_waits(database.url(), "pg_terminate_backend"));
        let error = ended.expect_err("it was ended");
        assert_eq!(error.kind(), BackendErrorKind::Unknown, "{through:?}: {error}");
        transaction.rollback().await.expect("a rollback");
        assert!(won(&backend.claim(&rival(&next)).await.expect("an answer").value), "nobody had won it");
        backend.finish(&done(&asked)).await.expect("an answer");
    }
}

/// Waits until a session waits for a lock, and calls a function with its process.
async fn one_waits(url: &str, function: &str) {
    let waits = format!(
        "SELECT {function}(pid) FROM pg_stat_activity \
         WHERE datname = current_database() AND wait_event_type = 'Lock'"
    );
    let mut other = PgConnection::connect(url).await.expect("a connection");
    while other.fetch_all(sqlx::AssertSqlSafe(waits.clone())).await.expect("a look").is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_connection_of_a_dropped_or_cancelled_call_is_used_no_more() {
    for through in [Through::TokioPostgres, Through::Deadpool] {
        let Some(database) = V18.database() else { return };
        let backend = through.backend(database.url());
        backend.connect().await.expect("a connection");
        let asked = claim("a", 1);
        assert!(won(&backend.claim(&asked).await.expect("an answer").value));
        let mut other = PgConnection::connect(database.url()).await.expect("a connection");
        let mut transaction = other.begin().await.expect("a transaction");
        let lock = "SELECT 1 FROM anarchon_runs_jobs WHERE job = 'a' AND ident = '' FOR UPDATE";
        transaction.execute(lock).await.expect("a lock");
        let mut next = claim("a", 2);
        next.overlap = anarchon::Overlap::Allow;

        let (ended, ()) = tokio::join!(backend.claim(&next), one_waits(database.url(), "pg_cancel_backend"));
        let error = ended.expect_err("it was cancelled");
        assert_eq!(error.kind(), BackendErrorKind::Unknown, "{through:?}: {error}");

        // Dropped while it waits. What is asked next does not wait behind it.
        tokio::select! {
            answer = backend.claim(&next) => panic!("the job is locked: {answer:?}"),
            () = one_waits(database.url(), "abs") => {}
        }
        assert!(backend.clock().await.expect("an answer").is_some(), "{through:?}");
        transaction.rollback().await.expect("a rollback");
        assert!(won(&backend.claim(&next).await.expect("an answer").value), "{through:?}");
    }
}

#[tokio::test]
async fn a_pool_of_the_applications_neither_lends_nor_loses_a_connection() {
    let Some(database) = V18.database() else { return };
    let pool = pool(database.url());
    let backend = PostgresBackend::from(pool.clone());
    let taken = pool.get().await.expect("its only connection");
    backend.connect().await.expect("a connection although the pool has none free");
    let asked = claim("a", 1);
    assert!(won(&backend.claim(&asked).await.expect("an answer").value));
    assert_eq!(pool.status().size, 1, "ours are none of the pool's");
    backend.close().await;
    taken.simple_query("SELECT 1").await.expect("it lives on");
    // Closed or not, the next call connects again.
    pool.close();
    backend.finish(&done(&asked)).await.expect("an answer");
}

/// What a store says that nobody lets in.
async fn refused(backend: &PostgresBackend) -> BackendError {
    backend.connect().await.expect_err("no connection")
}

#[tokio::test]
async fn errors_say_what_is_wrong_and_hold_no_password() {
    let Some(database) = V15.database() else { return };
    let mut stranger = config(database.url());
    stranger.user("nobody_of_ours").password("hunter2");
    let with_tls = {
        let mut config = config(database.url());
        config.password("hunter2").ssl_mode(tokio_postgres::config::SslMode::Require);
        config
    };
    let gone = {
        // Nobody listens on port 1.
        let mut config = Config::new();
        config.host("127.0.0.1").port(1).user("nobody_of_ours").password("hunter2").dbname("a");
        config
    };
    let mut nowhere = Config::new();
    nowhere.user("nobody_of_ours").password("hunter2");
    let cases = [
        (stranger, BackendErrorKind::Config, "nobody_of_ours"),
        (with_tls, BackendErrorKind::Config, "TLS"),
        (gone, BackendErrorKind::Unknown, "refused"),
        (nowhere, BackendErrorKind::Config, "host"),
    ];
    for (config, kind, says) in cases {
        let pool = Pool::builder(Manager::new(config.clone(), NoTls)).build().expect("a pool");
        for backend in [PostgresBackend::from_tokio_postgres(config), PostgresBackend::from_deadpool(&pool)] {
            let error = refused(&backend).await;
            assert_eq!(error.kind(), kind, "{error}");
            let all = format!("{error} {error:?} {backend:?}");
            assert!(all.contains(says) && !all.contains("hunter2"), "{all}");
        }
    }
}
