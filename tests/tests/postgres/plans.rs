//! Plans that were made while the tables were empty serve as well when they are full.

use std::time::Duration;

use anarchon::backend::PostgresDialect;
use anarchon::backend::sql::clients::SqlxPostgres;
use anarchon::backend::sql::{SqlBackend, SqlClient as _, SqlDialect as _, Statement, Tables, Verb};
use anarchon::run::{Beat, Finish, RunClaim, Trim};
use anarchon::{Backend as _, LeaseBackend as _, Retention};

use crate::place::{Place, V15, V18, run};
use crate::{claim, claims, done, rival, won};

type Store = SqlBackend<SqlxPostgres, PostgresDialect>;

/// How many blocks of tables and indexes a verb looks at, in the session that all calls of this test use. What the
/// session itself counts for its transactions is read before and after, in the same message.
async fn blocks(store: &Store, tables: &Tables, verb: Verb<'_>) -> i64 {
    let counted = "SELECT sum(pg_stat_get_xact_blocks_fetched(c.oid))::bigint FROM pg_class c \
                   WHERE c.relname LIKE 'anarchon%' AND c.relkind IN ('r', 'i')";
    let count = || Statement::new(counted, Vec::new());
    let mut statements = vec![count()];
    statements.extend(PostgresDialect::new().replace(verb, tables).expect("statements"));
    statements.push(count());
    let rows = store.client().batch(statements).await.expect("an answer");
    let (first, last) = (rows.first().expect("a row"), rows.last().expect("a row"));
    last.int(0).expect("a number") - first.int(0).expect("a number")
}

async fn full_tables_cost_little_more(place: Place, analyzed: bool) {
    let Some(database) = place.database() else { return };
    let store = SqlBackend::new("postgres", SqlxPostgres::at(database.url()), PostgresDialect::new())
        .table("public.anarchon_runs");
    store.connect().await.expect("a connection");
    let tables = Tables::new("public.anarchon_runs", &PostgresDialect::new()).expect("a name");
    // Nothing may tell the server how large the tables have become.
    run(
        database.url(),
        "ALTER TABLE anarchon_runs SET (autovacuum_enabled = false); \
         ALTER TABLE anarchon_runs_attempts SET (autovacuum_enabled = false); \
         ALTER TABLE anarchon_runs_jobs SET (autovacuum_enabled = false)",
    )
    .await;
    let lease = Duration::from_secs(15);
    if analyzed {
        // What the server takes for certain is that there is next to nothing.
        store.claim(&claim("first", 1)).await.expect("an answer");
        let tables = "anarchon_runs, anarchon_runs_attempts, anarchon_runs_jobs";
        run(database.url(), format!("VACUUM ANALYZE {tables}")).await;
    }
    // More often than a server without a setting for it looks for a plan that fits the values.
    for slot in 1..=8 {
        let one = claim("warm", slot);
        store.claim(&one).await.expect("an answer");
        store.claim(&rival(&one)).await.expect("an answer");
        store.heartbeat(&Beat::new(one.key(), one.token, lease)).await.expect("an answer");
        store.finish(&done(&one)).await.expect("an answer");
        let many = claims("warm", 64, slot);
        for answer in store.claim_many(&many).await {
            answer.expect("an answer");
        }
        for answer in store.finish_many(&many.iter().map(done).collect::<Vec<_>>()).await {
            answer.expect("an answer");
        }
        let trims: Vec<Trim> =
            many.iter().map(|c| Trim::new(c.job.clone(), Retention::new(0, None), Duration::ZERO)).collect();
        store.trim(&trims).await.expect("an answer");
    }
    run(
        database.url(),
        "INSERT INTO anarchon_runs_jobs (job, ident, touched) SELECT 'other-' || n, '', 0 FROM generate_series(1, 20000) n; \
         INSERT INTO anarchon_runs (slot, job, id, status, open_job, attempt, fence, reason, instance_id, \
         claimed_at, until_ms, max_attempts, within_ms, counts) \
         SELECT n, 'other-' || n, '', 'running', CASE WHEN n % 2 = 0 THEN 'other-' || n END, 1, 1, 'scheduled', 'i', \
         n, n, 3, 1, 1 FROM generate_series(1, 40000) n; \
         INSERT INTO anarchon_runs_attempts (job, id, slot, token, attempt, fence, reason, instance_id, status, claimed_at) \
         SELECT 'other-' || n, '', n, 't', 1, 1, 'scheduled', 'i', 'done', n FROM generate_series(1, 40000) n",
    )
    .await;
    let one = claim("one", 1_000);
    // The first claims of these jobs make rows that the later ones find.
    store.claim(&claim("one", 1)).await.expect("an answer");
    let mut free = one.clone();
    free.overlap = anarchon::Overlap::Allow;
    // Twice what it takes, and more: rows that others' transactions keep from being cleared away are looked at as well. A
    // plan that goes through a table takes ten times as much.
    let mut figures = Vec::new();
    let mut look = async |what: &'static str, verb: Verb<'_>, limit: i64| {
        let blocks = blocks(&store, &tables, verb).await;
        figures.push((what, blocks, limit));
    };
    look("a claim that is won", Verb::Claim(std::slice::from_ref(&free)), 100).await;
    look("a claim that is lost", Verb::Claim(&[rival(&free)]), 50).await;
    look("a heartbeat", Verb::Heartbeat(&[Beat::new(free.key(), free.token, lease)], 0), 50).await;
    look("a finish", Verb::Finish(&[done(&free)]), 100).await;
    let many: Vec<RunClaim> = claims("warm", 64, 1_000);
    look("64 claims", Verb::Claim(&many), 64 * 100).await;
    let others: Vec<RunClaim> = many.iter().map(rival).collect();
    look("64 claims that are lost", Verb::Claim(&others), 64 * 50).await;
    let beats: Vec<Beat> = many.iter().map(|c| Beat::new(c.key(), c.token, lease)).collect();
    look("64 heartbeats", Verb::Heartbeat(&beats, 0), 64 * 50).await;
    let ends: Vec<Finish> = many.iter().map(done).collect();
    look("64 finishes", Verb::Finish(&ends), 64 * 80).await;
    let trims: Vec<Trim> =
        many.iter().take(32).map(|c| Trim::new(c.job.clone(), Retention::new(0, None), Duration::ZERO)).collect();
    // Where one row was counted, they look at more than they need, until the server counts again.
    look("32 trims", Verb::Trim(&trims, 0), 32 * if analyzed { 600 } else { 200 }).await;
    println!("{figures:#?}");
    for (what, blocks, limit) in figures {
        assert!((1..=limit).contains(&blocks), "{what} looks at {blocks} blocks");
    }
    let next = claim("warm-001", 2_000);
    assert!(won(&store.claim(&next).await.expect("an answer").value));
}

#[tokio::test]
async fn plans_of_empty_tables_serve_full_ones_on_15() {
    full_tables_cost_little_more(V15, false).await;
}

#[tokio::test]
async fn plans_of_empty_tables_serve_full_ones_on_18() {
    full_tables_cost_little_more(V18, false).await;
}

#[tokio::test]
async fn plans_of_tables_with_one_row_serve_full_ones_on_15() {
    full_tables_cost_little_more(V15, true).await;
}

#[tokio::test]
async fn plans_of_tables_with_one_row_serve_full_ones_on_18() {
    full_tables_cost_little_more(V18, true).await;
}

/// What is lost needs no lock, so there is nothing to be written and synced.
#[tokio::test]
async fn a_claim_that_is_lost_writes_nothing() {
    let Some(database) = V18.database() else { return };
    let store = SqlBackend::new("postgres", SqlxPostgres::at(database.url()), PostgresDialect::new())
        .table("public.anarchon_runs");
    store.connect().await.expect("a connection");
    let tables = Tables::new("public.anarchon_runs", &PostgresDialect::new()).expect("a name");
    let wrote = async |claims: &[RunClaim]| {
        let mut statements = PostgresDialect::new().replace(Verb::Claim(claims), &tables).expect("statements");
        let asked = "SELECT CASE WHEN txid_current_if_assigned() IS NULL THEN 0 ELSE 1 END";
        statements.push(Statement::new(asked, Vec::new()));
        let rows = store.client().batch(statements).await.expect("an answer");
        rows.last().expect("a row").int(0).expect("a number") == 1
    };
    let many = claims("job", 10, 1_000);
    assert!(wrote(&many).await, "they are won");
    let lost: Vec<RunClaim> = many.iter().map(rival).collect();
    assert!(!wrote(&lost).await && !wrote(&lost[..1]).await, "they run elsewhere");
    for answer in store.finish_many(&many.iter().map(done).collect::<Vec<_>>()).await {
        answer.expect("an answer");
    }
    assert!(!wrote(&lost).await && !wrote(&lost[..1]).await, "they are done");
    let next = claims("job", 10, 2_000);
    assert!(wrote(&next[..1]).await && wrote(&next[1..]).await, "they are won");
}
