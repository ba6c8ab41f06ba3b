//! A server that dies, freezes and comes back.

use std::time::Duration;

use anarchon::run::ClaimOutcome;
use anarchon::{Backend as _, BackendErrorKind, LeaseBackend as _, PostgresBackend};
use sqlx::{Connection as _, Executor as _, PgConnection};
use tests::Server as _;
use tests::servers::{PgBouncer, PgBouncerVersion, Postgres, PostgresVersion};

use crate::place::V15;
use crate::{claim, done, rival, won};

#[tokio::test]
async fn what_was_answered_outlives_a_kill_and_the_client_recovers() {
    let Some(mut server) = Postgres::own(PostgresVersion::V18) else { return };
    let database = server.database();
    let backend = PostgresBackend::new(database.url());
    backend.connect().await.expect("a connection");
    let before = claim("before", 1);
    assert!(won(&backend.claim(&before).await.expect("an answer").value));
    server.kill();
    let during = claim("during", 1);
    for _ in 0..2 {
        let error = backend.claim(&during).await.expect_err("nobody is there");
        assert_eq!(error.kind(), BackendErrorKind::Unknown, "{error}");
    }
    server.start();
    assert!(won(&backend.claim(&during).await.expect("an answer").value));
    let again = backend.claim(&before).await.expect("an answer").value;
    assert!(matches!(again, ClaimOutcome::Won { attempt: 1, .. }), "{again:?}");
    assert!(!won(&backend.claim(&rival(&before)).await.expect("an answer").value));
    backend.finish(&done(&before)).await.expect("an answer");

    // Frozen: no answer, and the call is dropped at its deadline. It runs when the server goes on, or never.
    server.freeze();
    let frozen = claim("frozen", 1);
    let silence = tokio::time::timeout(Duration::from_millis(300), backend.claim(&frozen)).await;
    assert!(silence.is_err(), "there is an answer");
    server.thaw();
    assert!(won(&backend.claim(&frozen).await.expect("an answer").value));
    assert_eq!(backend.history(&frozen.job, 10).await.expect("a history").len(), 1);
}

#[tokio::test]
async fn a_pooler_that_was_killed_is_found_again() {
    let Some(mut pooler) = PgBouncer::own(PgBouncerVersion::V1_24) else { return };
    let database = pooler.database();
    let backend = PostgresBackend::new(database.url());
    backend.connect().await.expect("a connection");
    let asked = claim("a", 1);
    assert!(won(&backend.claim(&asked).await.expect("an answer").value));
    pooler.kill();
    let error = backend.claim(&asked).await.expect_err("nobody is there");
    assert_eq!(error.kind(), BackendErrorKind::Unknown, "{error}");
    pooler.start();
    assert!(won(&backend.claim(&asked).await.expect("an answer").value));
}

#[tokio::test]
async fn a_session_that_an_administrator_ended_is_replaced() {
    let Some(database) = V15.database() else { return };
    let backend = PostgresBackend::new(database.url());
    backend.connect().await.expect("a connection");
    let asked = claim("a", 1);
    assert!(won(&backend.claim(&asked).await.expect("an answer").value));
    let mut administrator = PgConnection::connect(database.url()).await.expect("a connection");
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    administrator.execute(end).await.expect("an end");
    let error = backend.claim(&asked).await.expect_err("the session was ended");
    assert_eq!(error.kind(), BackendErrorKind::Unknown, "{error}");
    assert!(won(&backend.claim(&asked).await.expect("an answer").value));

    // A claim that waits for the job is ended in the middle of it: nothing of it is left.
    let mut transaction = administrator.begin().await.expect("a transaction");
    let lock = "SELECT 1 FROM anarchon_runs_jobs WHERE job = 'a' AND ident = '' FOR UPDATE";
    transaction.execute(lock).await.expect("a lock");
    let mut next = claim("a", 2);
    next.overlap = anarchon::Overlap::Allow;
    let waiting = backend.claim(&next);
    let ending = async {
        let waits = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                     WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let mut other = PgConnection::connect(database.url()).await.expect("a connection");
        while other.fetch_all(waits).await.expect("a look").is_empty() {
            tokio::task::yield_now().await;
        }
    };
    let (ended, ()) = tokio::join!(waiting, ending);
    assert_eq!(ended.expect_err("it was ended").kind(), BackendErrorKind::Unknown);
    transaction.rollback().await.expect("a rollback");
    assert!(won(&backend.claim(&rival(&next)).await.expect("an answer").value), "nobody had won it");
}
