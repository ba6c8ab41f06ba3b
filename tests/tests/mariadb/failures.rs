//! Errors in the middle, connections that are lost, servers that die, and users who may little.

use std::time::Duration;

use anarchon::backend::sql::clients::SqlxMySql;
use anarchon::backend::{AnyBackend, MySqlDialect};
use anarchon::run::{ClaimOutcome, Ending};
use anarchon::{Backend as _, BackendErrorKind, LeaseBackend as _, MySqlBackend, Overlap};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, MySqlConnection, MySqlPool, Row as _};
use tests::Proxy;
use tests::backends::{answer, attempts, claim, finish, job, keeps_hostile_texts, race, several_start_at_once, won};
use tests::failures::{
    asks_once_for_each_verb, is_won_after_a_crash, takes_half_a_batch_back, wins_once_when_it_is_cut,
};
use tests::servers::MariaDb;

async fn run(connection: &mut MySqlConnection, sql: &str) {
    let done = connection.execute(sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await;
    done.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

async fn count(connection: &mut MySqlConnection, what: &str) -> i64 {
    let row = connection.fetch_one(AssertSqlSafe(format!("SELECT count(*) FROM {what}"))).await.expect("a count");
    row.get(0)
}

#[tokio::test]
async fn half_a_claim_is_never_committed_by_the_next() {
    let Some(server) = MariaDb::shared() else { return };
    let database = server.database();
    let backend = MySqlBackend::new(database.url());
    backend.connect().await.expect("a store");
    let mut other = MySqlConnection::connect(database.url()).await.expect("a connection");
    // The claim has staged itself and kept a floor by then.
    run(
        &mut other,
        "CREATE TRIGGER broken BEFORE INSERT ON anarchon_runs FOR EACH ROW \
         BEGIN IF NEW.job = 'a' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'broken'; END IF; END",
    )
    .await;
    let asked = claim("a", 1);
    let error = backend.claim(&asked).await.expect_err("it breaks");
    assert_eq!(error.kind(), BackendErrorKind::Refused, "{error}");
    assert!(won(&backend.claim(&claim("b", 1)).await.expect("an answer").value), "on the same connection");
    for table in ["anarchon_runs", "anarchon_runs_attempts", "anarchon_runs_jobs"] {
        assert_eq!(count(&mut other, &format!("{table} WHERE job = 'a'")).await, 0, "{table}");
    }
    run(&mut other, "DROP TRIGGER broken").await;
    assert!(won(&backend.claim(&asked).await.expect("an answer").value));
}

#[tokio::test]
async fn an_error_in_the_middle_of_a_batch_is_taken_back() {
    let Some(server) = MariaDb::shared() else { return };
    let database = server.database();
    MySqlBackend::new(database.url()).connect().await.expect("a store");
    takes_half_a_batch_back(&SqlxMySql::at(database.url(), MySqlDialect::new())).await;
}

#[tokio::test]
async fn a_dropped_call_leaves_nothing_half_written() {
    let Some(server) = MariaDb::shared() else { return };
    let database = server.database();
    let backend = MySqlBackend::new(database.url());
    backend.connect().await.expect("a store");
    for round in 1..=60_u32 {
        let mut asked = claim("a", round.into());
        asked.overlap = Overlap::Allow;
        let patience = Duration::from_micros((round * 40).into());
        drop(tokio::time::timeout(patience, backend.claim(&asked)).await);
        // The same packet again: won, whatever became of the first.
        let again = answer(async || backend.claim(&asked).await).await.value;
        assert!(matches!(again, ClaimOutcome::Won { attempt: 1, .. }), "{again:?}");
        let ending = finish(&asked, Ending::Failed("no".into()));
        drop(tokio::time::timeout(patience, backend.finish(&ending)).await);
        answer(async || backend.finish(&ending).await).await;
    }
    assert_eq!(attempts(&backend, "a").await.len(), 60);
}

#[tokio::test]
async fn a_connection_that_is_cut_is_replaced_and_the_same_token_wins_once() {
    let Some(server) = MariaDb::own() else { return };
    let database = server.database();
    let proxy = Proxy::before(server.address());
    let backend = MySqlBackend::new(database.url_through(proxy.address()));
    backend.connect().await.expect("a store");
    wins_once_when_it_is_cut(&proxy, &backend).await;
}

#[tokio::test]
async fn what_was_won_is_won_after_a_crash_of_the_server() {
    let Some(mut server) = MariaDb::own() else { return };
    let database = server.database();
    let backend = MySqlBackend::new(database.url());
    backend.connect().await.expect("a store");
    is_won_after_a_crash(&mut server, &backend).await;
}

#[test]
fn several_make_the_tables_at_once() {
    let Some(server) = MariaDb::shared() else { return };
    let database = server.database();
    several_start_at_once(|| MySqlBackend::new(database.url()));
}

#[test]
fn one_wins_each_slot_and_two_are_never_live_under_skip() {
    let Some(server) = MariaDb::shared() else { return };
    let database = server.database();
    race(|| MySqlBackend::new(database.url()), 120, 20);
}

#[tokio::test]
async fn any_text_is_kept_as_it_is() {
    let Some(server) = MariaDb::shared() else { return };
    let database = server.database();
    let backend = MySqlBackend::new(database.url());
    backend.connect().await.expect("a store");
    keeps_hostile_texts(&backend).await;
}

#[tokio::test]
async fn each_verb_is_one_round_trip() {
    let Some(server) = MariaDb::own() else { return };
    let database = server.database();
    let proxy = Proxy::before(server.address());
    let backend = MySqlBackend::new(database.url_through(proxy.address()));
    backend.connect().await.expect("a store");
    asks_once_for_each_verb(&proxy, &backend).await;
}

#[tokio::test]
async fn the_settings_of_a_server_change_nothing() {
    let Some(server) = MariaDb::own() else { return };
    let database = server.database();
    let mut root = MySqlConnection::connect(database.url()).await.expect("a connection");
    for setting in [
        "time_zone = '+05:00'",
        "sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES'",
        "tx_isolation = 'SERIALIZABLE'",
        "character_set_server = 'latin1'",
        "innodb_strict_mode = OFF",
    ] {
        run(&mut root, &format!("SET GLOBAL {setting}")).await;
    }
    let backend = MySqlBackend::new(database.url());
    backend.connect().await.expect("a store");
    let off = backend.clock().await.expect("a time").expect("it has a clock") - tests::wall_ms();
    assert!(off.unsigned_abs() < 60_000, "its clock is {off} ms off");
    keeps_hostile_texts(&backend).await;
    // It has runtimes of its own.
    std::thread::scope(|scope| {
        scope.spawn(|| race(|| MySqlBackend::new(database.url()), 30, 20));
    });
}

#[tokio::test]
async fn a_server_that_begins_transactions_by_itself_keeps_nobody_in_the_past() {
    let Some(server) = MariaDb::own() else { return };
    let database = server.database();
    let mut root = MySqlConnection::connect(database.url()).await.expect("a connection");
    run(&mut root, "SET GLOBAL autocommit = OFF").await;
    let (reader, writer) = (MySqlBackend::new(database.url()), MySqlBackend::new(database.url()));
    for slot in 1..=2 {
        // A read that leaves a transaction open would go on seeing what it saw.
        let before = reader.history(&job("a"), 10).await.expect("a history").len();
        let asked = claim("a", slot);
        assert!(won(&writer.claim(&asked).await.expect("an answer").value));
        writer.finish(&finish(&asked, Ending::Done)).await.expect("an end");
        assert_eq!(reader.history(&job("a"), 10).await.expect("a history").len(), before + 1);
    }
    assert!(won(&reader.claim(&claim("a", 3)).await.expect("an answer").value), "on the connection that has read");
}

#[tokio::test]
async fn the_tables_of_a_newer_release_are_refused() {
    let Some(server) = MariaDb::shared() else { return };
    let database = server.database();
    let backend = MySqlBackend::new(database.url());
    backend.connect().await.expect("a store");
    let mut other = MySqlConnection::connect(database.url()).await.expect("a connection");
    run(&mut other, "UPDATE anarchon_runs_meta SET v = 2 WHERE k = 'format'").await;
    assert!(won(&backend.claim(&claim("a", 1)).await.expect("the next format can be worked with").value));
    run(&mut other, "UPDATE anarchon_runs_meta SET v = 3 WHERE k = 'format'").await;
    let error = backend.claim(&claim("b", 1)).await.expect_err("a refusal");
    assert!(error.kind() == BackendErrorKind::Config && error.message().contains("newer release"), "{error}");
    assert_eq!(count(&mut other, "anarchon_runs").await, 1, "nothing was written");
}

#[tokio::test]
async fn a_user_without_the_right_to_make_tables_needs_them_made() {
    let Some(server) = MariaDb::shared() else { return };
    let database = server.database();
    let mut root = MySqlConnection::connect(database.url()).await.expect("a connection");
    let (name, user) = (database.name().to_owned(), format!("u{}", std::process::id()));
    run(&mut root, &format!("CREATE USER {user} IDENTIFIED BY 'pass word'")).await;
    run(&mut root, &format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {name}.* TO {user}")).await;
    let at = database.url().rsplit('@').next().expect("an address").to_owned();
    let url = |password: &str| format!("mysql://{user}:{password}@{at}");
    let small = MySqlBackend::new(url("pass%20word"));
    let error = small.connect().await.expect_err("there are no tables");
    assert_eq!(error.kind(), BackendErrorKind::Config, "{error}");
    MySqlBackend::new(database.url()).connect().await.expect("a store");
    small.connect().await.expect("the tables are there");
    let asked = claim("a", 1);
    assert!(won(&small.claim(&asked).await.expect("an answer").value));
    small.finish(&finish(&asked, Ending::Done)).await.expect("an end");
    let error = MySqlBackend::new(url("secret")).connect().await.expect_err("another password");
    assert!(error.kind() == BackendErrorKind::Config && !format!("{error:?}").contains("secret"), "{error:?}");
    run(&mut root, &format!("DROP USER {user}")).await;
}

#[tokio::test]
async fn what_cannot_be_a_store_is_said() {
    let Some(server) = MariaDb::shared() else { return };
    let database = server.database();
    let missing = database.url().replace(database.name(), "no_such_database");
    let long = "x".repeat(60);
    for (backend, words) in [
        (MySqlBackend::new(missing), "no such database"),
        (MySqlBackend::new("mysql://127.0.0.1"), "names no database"),
        (MySqlBackend::new(database.url()).table("a-b"), "cannot be a table's name"),
        (MySqlBackend::new(database.url()).table(&long), "more than 48 bytes"),
    ] {
        let error = backend.connect().await.expect_err("no store");
        assert!(error.kind() == BackendErrorKind::Config && error.to_string().contains(words), "{words}: {error}");
    }
    #[cfg(not(feature = "tls"))]
    for mode in ["REQUIRED", "VERIFY_IDENTITY"] {
        let backend = MySqlBackend::new(format!("{}?ssl-mode={mode}", database.url()));
        let error = backend.connect().await.expect_err("there is no TLS");
        assert_eq!(error.kind(), BackendErrorKind::Config, "{error}");
        assert!(error.to_string().contains("the feature `tls`"), "{error}");
    }
    let error = MySqlBackend::new("mysql://127.0.0.1:1/d").connect().await.expect_err("nobody is there");
    assert_eq!(error.kind(), BackendErrorKind::Unknown, "{error}");
}

#[tokio::test]
async fn the_pool_of_an_application_lends_its_address_and_stays_open() {
    let Some(server) = MariaDb::shared() else { return };
    let database = server.database();
    let pool = MySqlPool::connect(database.url()).await.expect("a pool");
    let backend = MySqlBackend::from(pool.clone()).table("cron_runs");
    let info = backend.connect().await.expect("a store");
    assert!(info.server.starts_with("MariaDB 1") || info.server.starts_with("MySQL "), "{info:?}");
    assert!(won(&backend.claim(&claim("a", 1)).await.expect("an answer").value));
    backend.close().await;
    let runs: i64 = sqlx::query_scalar("SELECT count(*) FROM cron_runs").fetch_one(&pool).await.expect("a count");
    assert_eq!(runs, 1);
    // By URL, and in another database of the same server.
    let elsewhere = server.database();
    let table = format!("{}.jobs", elsewhere.name());
    let by_url = MySqlBackend::new(database.url().replace("mysql://", "mariadb://")).table(&table);
    by_url.connect().await.expect("a store");
    assert!(won(&by_url.claim(&claim("a", 1)).await.expect("an answer").value));
    AnyBackend::connect(database.url()).expect("a driver").connect().await.expect("a store");
    pool.close().await;
}
