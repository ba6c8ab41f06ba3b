//! Errors in the middle, requests that nobody answers, servers that die, and places that are none.

use std::time::Duration;

use anarchon::backend::sql::clients::LibsqlClient;
use anarchon::backend::sql::{SqlBackend, SqlClient as _, Statement};
use anarchon::backend::{AnyBackend, SqliteDialect};
use anarchon::run::{ClaimOutcome, Ending};
use anarchon::{Backend as _, BackendErrorKind, LeaseBackend as _, LibsqlBackend, Overlap};
use serde_json::json;
use tests::backends::{attempts, claim, finish, keeps_hostile_texts, race, several_start_at_once, won};
use tests::failures::{
    asks_once_for_each_verb, is_won_after_a_crash, takes_half_a_batch_back, wins_once_when_it_is_cut,
};
use tests::servers::Sqld;
use tests::{LONG, Proxy};

fn at(url: &str) -> LibsqlClient<SqliteDialect> {
    LibsqlClient::at(url, "", dialect())
}

fn dialect() -> SqliteDialect {
    SqliteDialect::new().without_sessions()
}

#[tokio::test]
async fn half_a_claim_is_never_committed_by_the_next() {
    let Some(server) = Sqld::own() else { return };
    let backend = LibsqlBackend::new(server.url(), "");
    backend.connect().await.expect("a store");
    // The claim has staged itself and kept a floor by then.
    let _ = server.query(
        "CREATE TRIGGER broken BEFORE INSERT ON anarchon_runs WHEN NEW.job = 'a' \
         BEGIN SELECT RAISE(ABORT, 'broken'); END",
    );
    let asked = claim("a", 1);
    let error = backend.claim(&asked).await.expect_err("it breaks");
    assert_eq!(error.kind(), BackendErrorKind::Refused, "{error}");
    assert!(won(&backend.claim(&claim("b", 1)).await.expect("an answer").value));
    for table in ["anarchon_runs", "anarchon_runs_attempts", "anarchon_runs_jobs"] {
        let rows = server.query(&format!("SELECT count(*) FROM {table} WHERE job = 'a'"));
        assert_eq!(rows, json!([[{"type": "integer", "value": "0"}]]), "{table}");
    }
    let _ = server.query("DROP TRIGGER broken");
    assert!(won(&backend.claim(&asked).await.expect("an answer").value));
}

#[tokio::test]
async fn an_error_in_the_middle_of_a_batch_is_taken_back() {
    let Some(server) = Sqld::own() else { return };
    LibsqlBackend::new(server.url(), "").connect().await.expect("a store");
    takes_half_a_batch_back(&at(&server.url())).await;
}

#[tokio::test]
async fn a_call_that_is_dropped_goes_on_to_its_end() {
    let Some(server) = Sqld::own() else { return };
    let proxy = Proxy::before(server.address());
    let backend = LibsqlBackend::new(format!("http://{}", proxy.address()), "");
    backend.connect().await.expect("a store");
    for round in 1..=40_u32 {
        let mut asked = claim("a", round.into());
        asked.overlap = Overlap::Allow;
        let patience = Duration::from_micros((round * 40).into());
        drop(tokio::time::timeout(patience, backend.claim(&asked)).await);
        let again = backend.claim(&asked).await.expect("an answer").value;
        assert!(matches!(again, ClaimOutcome::Won { attempt: 1, .. }), "{again:?}");
        let ending = finish(&asked, Ending::Failed("no".into()));
        drop(tokio::time::timeout(patience, backend.finish(&ending)).await);
        backend.finish(&ending).await.expect("an answer");
    }
    assert_eq!(attempts(&backend, "a").await.len(), 40);
    assert_eq!(proxy.accepted(), 1, "no request was cut off, and none was sent beside another");
}

#[tokio::test]
async fn a_connection_that_is_cut_is_replaced_and_the_same_token_wins_once() {
    let Some(server) = Sqld::own() else { return };
    let proxy = Proxy::before(server.address());
    let backend = LibsqlBackend::new(format!("http://{}", proxy.address()), "");
    backend.connect().await.expect("a store");
    wins_once_when_it_is_cut(&proxy, &backend).await;
}

#[tokio::test]
async fn a_request_that_nobody_answers_keeps_the_next_waiting_for_a_while_only() {
    let Some(server) = Sqld::own() else { return };
    let proxy = Proxy::before(server.address());
    let client = at(&format!("http://{}", proxy.address())).silence(Duration::from_millis(300));
    let backend = SqlBackend::new("libsql", client, dialect());
    backend.connect().await.expect("a store");
    let asked = claim("a", 1);
    proxy.swallow_reply(1);
    let error = backend.claim(&asked).await.expect_err("silence");
    assert_eq!(error.kind(), BackendErrorKind::Unknown, "{error}");
    let again = backend.claim(&asked).await.expect("another connection").value;
    assert!(matches!(again, ClaimOutcome::Won { attempt: 1, .. }), "{again:?}");
    assert_eq!(proxy.connections(), 2, "the first request was left to itself, and not cut off");
}

#[tokio::test]
async fn requests_that_nobody_answers_do_not_become_more_and_more() {
    let Some(server) = Sqld::own() else { return };
    let proxy = Proxy::before(server.address());
    let client = at(&format!("http://{}", proxy.address())).silence(Duration::from_millis(20));
    proxy.partition();
    let ask = async || client.query(Statement::new("SELECT 1", Vec::new())).await;
    for _ in 0..8 {
        let error = ask().await.expect_err("silence");
        assert!(error.to_string().contains("no answer within"), "{error}");
    }
    for _ in 0..8 {
        let error = ask().await.expect_err("a refusal");
        assert_eq!(error.kind(), BackendErrorKind::Unknown, "{error}");
        assert!(error.to_string().contains("too many requests are unanswered"), "{error}");
    }
    proxy.heal();
    // They are answered, and make room.
    let since = std::time::Instant::now();
    while let Err(error) = ask().await {
        assert!(since.elapsed() < LONG, "{error}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn what_was_won_is_won_after_a_crash_of_the_server() {
    let Some(mut server) = Sqld::own() else { return };
    let backend = LibsqlBackend::new(server.url(), "");
    backend.connect().await.expect("a store");
    is_won_after_a_crash(&mut server, &backend).await;
}

#[test]
fn several_make_the_tables_at_once() {
    let Some(server) = Sqld::own() else { return };
    several_start_at_once(|| LibsqlBackend::new(server.url(), ""));
}

#[test]
fn one_wins_each_slot_and_two_are_never_live_under_skip() {
    let Some(server) = Sqld::own() else { return };
    race(|| LibsqlBackend::new(server.url(), ""), 40, 20);
}

#[tokio::test]
async fn any_text_is_kept_as_it_is_or_refused() {
    let Some(server) = Sqld::own() else { return };
    let backend = LibsqlBackend::new(server.url(), "");
    backend.connect().await.expect("a store");
    keeps_hostile_texts(&backend).await;
}

#[tokio::test]
async fn each_verb_is_one_round_trip() {
    let Some(server) = Sqld::own() else { return };
    let proxy = Proxy::before(server.address());
    let backend = LibsqlBackend::new(format!("http://{}", proxy.address()), "");
    backend.connect().await.expect("a store");
    asks_once_for_each_verb(&proxy, &backend).await;
    assert_eq!(proxy.accepted(), 1, "on one connection");
}

#[tokio::test]
async fn the_tables_of_a_newer_release_are_refused() {
    let Some(server) = Sqld::own() else { return };
    let backend = LibsqlBackend::new(server.url(), "");
    backend.connect().await.expect("a store");
    let _ = server.query("UPDATE anarchon_runs_meta SET v = 3 WHERE k = 'format'");
    let error = backend.claim(&claim("a", 1)).await.expect_err("a refusal");
    assert!(error.kind() == BackendErrorKind::Config && error.message().contains("newer release"), "{error}");
    assert_eq!(server.query("SELECT 1 FROM anarchon_runs"), json!([]), "nothing was written");
}

#[tokio::test]
async fn a_database_of_the_application_is_used_and_stays_open() {
    let Some(server) = Sqld::own() else { return };
    let http = hyper::client::HttpConnector::new();
    let database = libsql::Builder::new_remote(server.url(), String::new()).connector(http).build().await;
    let database = std::sync::Arc::new(database.expect("a database"));
    let backend = LibsqlBackend::from_database(std::sync::Arc::clone(&database)).table("cron_runs");
    let info = backend.connect().await.expect("a store");
    assert!(info.server.starts_with("libSQL (SQLite 3."), "{info:?}");
    assert!(won(&backend.claim(&claim("a", 1)).await.expect("an answer").value));
    backend.close().await;
    let connection = database.connect().expect("a connection");
    let mut rows = connection.query("SELECT count(*) FROM cron_runs", ()).await.expect("rows");
    let row = rows.next().await.expect("an answer").expect("a row");
    assert_eq!(row.get::<i64>(0).expect("a count"), 1);
    AnyBackend::connect(&server.url()).expect("a driver").connect().await.expect("a store");
}

#[tokio::test]
async fn what_cannot_be_a_store_is_said() {
    let Some(server) = Sqld::own() else { return };
    for (backend, words) in [
        (LibsqlBackend::new("http://u:secret@h", ""), "is given a token"),
        (LibsqlBackend::new(server.url(), "to ken"), "no token has"),
        (LibsqlBackend::new(server.url(), "").table("jobs.runs"), "no schemas"),
        (LibsqlBackend::new(format!("{}/elsewhere", server.url()), ""), "no such database"),
    ] {
        let error = backend.connect().await.expect_err("no store");
        assert!(error.kind() == BackendErrorKind::Config && error.to_string().contains(words), "{words}: {error}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
    let error = LibsqlBackend::new("http://127.0.0.1:1", "").connect().await.expect_err("nobody is there");
    assert_eq!(error.kind(), BackendErrorKind::Unknown, "{error}");
}
