//! Tables and functions: who makes them, where, and what happens when somebody may not.

use std::time::Duration;

use anarchon::{Backend as _, BackendErrorKind, LeaseBackend as _, PostgresBackend};
use tests::servers::Database;

use crate::place::{POOLED_1_24, Place, V15, V18, number, run};
use crate::{claim, rival, won};

/// The same database, for another user.
fn as_user(database: &Database, user: &str) -> String {
    database.url().replacen("postgres@", &format!("{user}@"), 1)
}

#[test]
fn several_make_the_tables_at_once() {
    for place in [V15, V18, POOLED_1_24] {
        let Some(database) = place.database() else { return };
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let url = database.url().to_owned();
                std::thread::spawn(move || {
                    let runtime =
                        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
                    runtime.block_on(async {
                        let backend = PostgresBackend::new(url);
                        backend.connect().await.expect("tables are made, or found");
                        won(&backend.claim(&claim("a", 1)).await.expect("an answer").value)
                    })
                })
            })
            .collect();
        let wins = threads.into_iter().filter(|_| true).map(|thread| thread.join().expect("no panic"));
        assert_eq!(wins.filter(|won| *won).count(), 1, "{place:?}");
    }
}

async fn a_user_who_may_not_create(place: Place, user: &str) {
    let Some(database) = place.database() else { return };
    run(
        database.url(),
        format!(
            "DO $$ BEGIN CREATE ROLE {user} LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$; \
             REVOKE ALL ON SCHEMA public FROM PUBLIC; CREATE SCHEMA jobs; GRANT USAGE ON SCHEMA jobs TO {user}"
        ),
    )
    .await;
    let url = as_user(&database, user);
    let backend = || PostgresBackend::new(&url).table("jobs.cron_runs");
    let error = backend().connect().await.expect_err("nobody has made tables");
    assert_eq!(error.kind(), BackendErrorKind::Config);
    assert!(
        error.message().contains("privilege") && error.message().contains("GRANT") | error.message().contains("grant"),
        "{error}"
    );

    PostgresBackend::new(database.url()).table("jobs.cron_runs").connect().await.expect("a privileged start");
    let error = backend().connect().await.expect_err("no privilege on the tables");
    assert_eq!(error.kind(), BackendErrorKind::Config, "{error}");
    let tables = ["cron_runs", "cron_runs_attempts", "cron_runs_jobs", "cron_runs_meta"].map(|t| format!("jobs.{t}"));
    run(database.url(), format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {} TO {user}", tables.join(", "))).await;
    let store = backend();
    store.connect().await.expect("the privileges are enough");
    let asked = claim("a", 1);
    assert!(won(&store.claim(&asked).await.expect("an answer").value));
    let mut many = crate::claims("many", 3, 1);
    many.push(rival(&asked));
    many.sort_by(|a, b| a.job.cmp(&b.job));
    for answer in store.claim_many(&many).await {
        answer.expect("an answer");
    }
    store.finish(&crate::done(&asked)).await.expect("an answer");

    // A release whose functions nobody has made.
    run(
        database.url(),
        "DO $$ DECLARE f record; BEGIN FOR f IN SELECT p.oid::regprocedure AS name FROM pg_proc p \
         JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'jobs' LOOP \
         EXECUTE 'DROP FUNCTION ' || f.name; END LOOP; END $$",
    )
    .await;
    let error = backend().connect().await.expect_err("no functions");
    assert_eq!(error.kind(), BackendErrorKind::Config);
    assert!(error.message().contains("start this release once as a user who may"), "{error}");
    PostgresBackend::new(database.url()).table("jobs.cron_runs").connect().await.expect("a privileged start");
    backend().connect().await.expect("the functions are there again");
    assert!(!won(&store.claim(&rival(&asked)).await.expect("an answer").value));
    run(database.url(), format!("DROP OWNED BY {user}")).await;
}

#[tokio::test]
async fn a_user_who_may_not_create_anything_uses_what_is_there_on_15() {
    a_user_who_may_not_create(V15, "anarchon_plain_15").await;
}

#[tokio::test]
async fn a_user_who_may_not_create_anything_uses_what_is_there_on_18() {
    a_user_who_may_not_create(V18, "anarchon_plain_18").await;
}

#[tokio::test]
async fn a_schema_has_to_exist_and_names_are_checked() {
    let Some(database) = V18.database() else { return };
    let config = async |name: &str| {
        let error = PostgresBackend::new(database.url()).table(name).connect().await.expect_err("no such place");
        assert_eq!(error.kind(), BackendErrorKind::Config, "{error}");
        error.message().to_owned()
    };
    let message = config("no_such_schema.cron_runs").await;
    assert!(message.contains("no_such_schema") && message.contains("has to exist"), "{message}");
    let long = "x".repeat(49);
    for bad in ["", "a b", "x; drop table y", "a.b.c", "\"x\"", "1st", "päth", "a\0b", long.as_str()] {
        config(bad).await;
    }
    // As long as a name may be, and still two releases' functions have names of their own.
    let longest = "y".repeat(48);
    for name in [longest.as_str(), "Order", "select"] {
        let backend = PostgresBackend::new(database.url()).table(name);
        backend.connect().await.expect("tables of this name");
        assert!(won(&backend.claim(&claim("a", 1)).await.expect("an answer").value), "{name}");
    }
}

#[tokio::test]
async fn where_the_tables_are_is_settled_once() {
    for place in [V15, POOLED_1_24] {
        let Some(database) = place.database() else { return };
        run(database.url(), "CREATE SCHEMA other").await;
        let backend = PostgresBackend::new(database.url());
        backend.connect().await.expect("a connection");
        let asked = claim("a", 1);
        assert!(won(&backend.claim(&asked).await.expect("an answer").value));
        // From now on the path of new sessions, and behind a pooler that of old ones, leads elsewhere.
        run(database.url(), format!("ALTER DATABASE {} SET search_path = other", database.name())).await;
        run(database.url(), "SET search_path = other, pg_temp").await;
        for _ in 0..6 {
            assert!(!won(&backend.claim(&rival(&asked)).await.expect("an answer").value), "{place:?}");
        }
        backend.close().await;
        assert!(!won(&backend.claim(&rival(&asked)).await.expect("an answer").value), "{place:?}");
        let elsewhere = "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                         WHERE n.nspname = 'other'";
        assert_eq!(number(database.url(), elsewhere).await, 0, "{place:?}");
    }
}

#[tokio::test]
async fn tables_that_are_there_are_found_before_others_are_made() {
    let Some(database) = V18.database() else { return };
    let first = PostgresBackend::new(database.url());
    first.connect().await.expect("a connection");
    let asked = claim("a", 1);
    assert!(won(&first.claim(&asked).await.expect("an answer").value));
    // A schema of the user's own comes first in the path, and has no tables of ours.
    run(database.url(), "CREATE SCHEMA postgres").await;
    let second = PostgresBackend::new(database.url());
    second.connect().await.expect("a connection");
    assert!(!won(&second.claim(&rival(&asked)).await.expect("an answer").value));
}

#[tokio::test]
async fn the_tables_of_a_newer_release_are_refused() {
    let Some(database) = V15.database() else { return };
    let backend = PostgresBackend::new(database.url());
    backend.connect().await.expect("a connection");
    let set = |format: i64| {
        let sql = format!("UPDATE anarchon_runs_meta SET v = {format} WHERE k = 'format'");
        run(database.url(), sql)
    };
    // The next format can be worked with, during a rolling deploy.
    set(2).await;
    assert!(won(&backend.claim(&claim("a", 1)).await.expect("an answer").value));
    set(3).await;
    let mut answers = backend.claim_many(&crate::claims("many", 2, 1)).await;
    answers.push(backend.claim(&claim("b", 1)).await);
    answers.push(PostgresBackend::new(database.url()).connect().await.map(|_| unreachable!("it is newer")));
    for answer in answers {
        let error = answer.expect_err("a newer release's tables");
        assert_eq!(error.kind(), BackendErrorKind::Config);
        assert!(error.message().contains("newer release"), "{error}");
    }
    set(1).await;
    assert_eq!(number(database.url(), "SELECT count(*) FROM anarchon_runs").await, 1, "nothing was written");
}

#[tokio::test]
async fn tables_that_have_lost_their_format_are_used_as_they_are() {
    let Some(database) = V15.database() else { return };
    let backend = PostgresBackend::new(database.url());
    backend.connect().await.expect("a connection");
    run(database.url(), "DELETE FROM anarchon_runs_meta").await;
    let claims = crate::claims("job", 2, 1);
    let answers = tokio::time::timeout(Duration::from_secs(60), backend.claim_many(&claims)).await;
    for answer in answers.expect("it does not try for ever") {
        assert!(won(&answer.expect("an answer").value));
    }
}

#[tokio::test]
async fn what_somebody_removed_is_made_again() {
    let Some(database) = V18.database() else { return };
    let backend = PostgresBackend::new(database.url());
    backend.connect().await.expect("a connection");
    assert!(won(&backend.claim(&claim("a", 1)).await.expect("an answer").value));
    run(
        database.url(),
        "DROP TABLE anarchon_runs, anarchon_runs_attempts, anarchon_runs_jobs, anarchon_runs_meta; \
         DO $$ DECLARE f record; BEGIN FOR f IN SELECT p.oid::regprocedure AS name FROM pg_proc p \
         WHERE p.proname LIKE 'anarchon%' LOOP EXECUTE 'DROP FUNCTION ' || f.name; END LOOP; END $$",
    )
    .await;
    backend.claim(&claim("a", 2)).await.expect_err("nothing is there");
    assert!(won(&backend.claim(&claim("a", 3)).await.expect("an answer").value));
}
