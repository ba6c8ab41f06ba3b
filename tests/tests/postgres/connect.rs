//! Ways to a server, and what is said when there is none.

use std::error::Error;
use std::process::Command;
use std::sync::Arc;

use anarchon::{AnyBackend, Backend as _, BackendErrorKind, LeaseBackend as _, PostgresBackend};
use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection as _, Executor as _, PgConnection};

use crate::place::{POOLED_1_18, V15, V18};
use crate::{claim, rival, won};

#[tokio::test]
async fn a_pool_gives_its_address_and_stays_open() {
    for place in [V18, POOLED_1_18] {
        let Some(database) = place.database() else { return };
        let pool = PgPoolOptions::new().max_connections(1).connect(database.url()).await.expect("a pool");
        let backend = PostgresBackend::from_pool(&pool);
        // The application has all of its own connections.
        let held = pool.acquire().await.expect("a connection");
        let info = backend.connect().await.expect("a connection");
        assert!(info.server.starts_with("PostgreSQL 1") && info.warnings.is_empty(), "{info:?}");
        assert!(won(&backend.claim(&claim("a", 1)).await.expect("an answer").value));
        drop(held);
        backend.close().await;
        assert!(!pool.is_closed());
        let runs: i64 = sqlx::query_scalar("SELECT count(*) FROM anarchon_runs")
            .persistent(false)
            .fetch_one(&pool)
            .await
            .expect("1");
        assert_eq!(runs, 1);
    }
}

#[tokio::test]
async fn a_connection_is_shared_warned_about_and_stays_open() {
    let Some(database) = V15.database() else { return };
    let connection = PgConnection::connect(database.url()).await.expect("a connection");
    let connection = Arc::new(tokio::sync::Mutex::new(connection));
    let backend = PostgresBackend::from_connection(Arc::clone(&connection));
    let info = backend.connect().await.expect("a connection");
    assert!(info.warnings.iter().any(|warning| warning.contains("can cost leases")), "{info:?}");
    let asked = claim("a", 1);
    // Dropped at once, in the middle: the next call is not given its answer.
    drop(tokio::time::timeout(std::time::Duration::from_micros(1), backend.claim(&asked)).await);
    assert!(won(&backend.claim(&asked).await.expect("an answer").value));
    assert!(!won(&backend.claim(&rival(&asked)).await.expect("an answer").value));
    backend.close().await;
    let mut lent = connection.lock().await;
    let runs: i64 = sqlx::query_scalar("SELECT count(*) FROM anarchon_runs").fetch_one(&mut *lent).await.expect("1");
    assert_eq!(runs, 1);
    // A claim must not become part of a transaction of the application's.
    lent.execute(sqlx::raw_sql("BEGIN; SELECT 1")).await.expect("a transaction");
    drop(lent);
    let next = claim("b", 1);
    let error = backend.claim(&next).await.expect_err("a transaction is open");
    assert_eq!(error.kind(), BackendErrorKind::Refused, "{error}");
    connection.lock().await.execute("ROLLBACK").await.expect("a rollback");
    assert!(won(&backend.claim(&next).await.expect("an answer").value));
}

#[tokio::test]
async fn a_url_opens_it_from_the_catalogue() {
    let Some(database) = V18.database() else { return };
    for scheme in ["postgres:", "postgresql:"] {
        let url = database.url().replacen("postgres:", scheme, 1);
        let backend = AnyBackend::connect(&url).expect("a store of this scheme");
        assert_eq!(backend.name(), "postgres");
        backend.connect().await.expect("a connection");
        backend.close().await;
    }
}

#[cfg(not(feature = "tls"))]
#[tokio::test]
async fn without_tls_compiled_in_an_encrypted_connection_is_refused_by_the_name_of_the_feature() {
    let Some(database) = V18.database() else { return };
    for mode in ["require", "verify-full"] {
        let backend = PostgresBackend::new(format!("{}?sslmode={mode}", database.url()));
        let error = backend.connect().await.expect_err("no connection");
        assert_eq!(error.kind(), BackendErrorKind::Config, "{error}");
        assert!(error.message().contains("the feature `tls`"), "{error}");
    }
}

#[tokio::test]
async fn what_cannot_be_reached_or_is_refused_is_told_without_the_password() {
    let Some(database) = V18.database() else { return };
    let server = database.url().rsplit_once('/').expect("a path in the URL").0.to_owned();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    for (url, kind, says) in [
        (format!("postgres://u:hush@{nobody}/d"), BackendErrorKind::Unknown, nobody.to_string()),
        ("postgres://u:hush@127.0.0.1:port/d".to_owned(), BackendErrorKind::Config, "URL".to_owned()),
        ("mysql://u:hush@127.0.0.1/d".to_owned(), BackendErrorKind::Config, "postgres:".to_owned()),
        (format!("{server}/hush_not?sslmode=hush"), BackendErrorKind::Config, "URL".to_owned()),
        (format!("{server}/nowhere"), BackendErrorKind::Config, "no such database".to_owned()),
        (
            server.replacen("postgres@", "nobody_here:hush@", 1) + "/postgres",
            BackendErrorKind::Config,
            "does not let this user in".to_owned(),
        ),
    ] {
        let backend = PostgresBackend::new(&url);
        let error = backend.connect().await.expect_err("no connection");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(&says), "{error}");
        let mut told = format!("{backend:?} {error} {error:?}");
        let mut cause: Option<&dyn Error> = error.source();
        while let Some(error) = cause {
            told.push_str(&format!(" {error} {error:?}"));
            cause = error.source();
        }
        assert!(!told.contains("hush@") && !told.contains(":hush"), "{told}");
    }
}

/// Runs one test of this file in a program of its own, with this environment and no other `PG…`.
fn program(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a test has a file"));
    command.args(["--exact", "--nocapture", test]);
    for name in ["DATABASE_URL", "PGHOST", "PGHOSTADDR", "PGPORT", "PGUSER", "PGPASSWORD", "PGDATABASE", "PGOPTIONS"] {
        command.env_remove(name);
    }
    command
}

#[test]
fn the_environment_names_the_server() {
    const INSIDE: &str = "ANARCHON_TEST_INSIDE";
    const NAME: &str = "connect::the_environment_names_the_server";
    if std::env::var_os(INSIDE).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let info = runtime.block_on(PostgresBackend::default().connect()).expect("a connection");
        println!("\nat {}", info.server);
        return;
    }
    let Some(database) = V18.database() else { return };
    let address = database.url().split('@').nth(1).expect("a host").split('/').next().expect("a host").to_owned();
    let (host, port) = address.split_once(':').expect("a port");
    let name = database.name();
    let variables: [&[(&str, &str)]; 3] = [
        &[("DATABASE_URL", database.url())],
        &[("PGHOST", host), ("PGPORT", port), ("PGUSER", "postgres"), ("PGDATABASE", name)],
        // Without a host and a database: `postgres` on `localhost`.
        &[("PGPORT", port), ("PGUSER", "postgres"), ("DATABASE_URL", " ")],
    ];
    for (n, variables) in variables.into_iter().enumerate() {
        let output = program(NAME).env(INSIDE, "1").envs(variables.iter().copied()).output().expect("a program");
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        let place = if n == 2 { format!("localhost:{port}/postgres") } else { format!("{host}:{port}/{name}") };
        assert!(output.status.success() && told.contains(&place), "{variables:?}: {told}");
    }
}
