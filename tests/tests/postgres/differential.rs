//! Random calls, answered as the rules in Rust answer them.

use anarchon::Backend as _;
use anarchon::backend::PostgresDialect;
use anarchon::backend::sql::SqlBackend;
use anarchon::backend::sql::clients::SqlxPostgres;
use anarchon::testing::differential::{HAND_CLOCK, play};
use tests::servers::Database;

use crate::place::{POOLED_1_24, Place, V15, V18, number};

const STEPS: u64 = 6_000;

async fn play_at(place: Place, first_seed: u64) {
    let databases: Vec<Option<Database>> = (0..8).map(|_| place.database()).collect();
    let Some(databases) = databases.into_iter().collect::<Option<Vec<_>>>() else { return };
    play(first_seed, STEPS, async |seed| {
        let database = &databases[usize::try_from(seed - first_seed).expect("a small number")];
        let dialect = PostgresDialect::new().with_clock(HAND_CLOCK);
        let store = SqlBackend::new("postgres", SqlxPostgres::at(database.url()), dialect);
        store.connect().await.expect("a connection");
        store
    })
    .await;
    for database in &databases {
        nothing_is_after_the_newest(place, database.url()).await;
    }
}

/// What claims go by instead of looking: no run and no record is after the newest slot that a job's row notes, and the
/// schedule that it notes begins before that.
async fn nothing_is_after_the_newest(place: Place, url: &str) {
    let after = "SELECT count(*) FROM anarchon_runs_jobs l WHERE l.ident = '' AND ( \
                   EXISTS (SELECT 1 FROM anarchon_runs r WHERE r.job = l.job AND r.id = '' \
                     AND (r.slot > l.newest) IS NOT FALSE) \
                   OR EXISTS (SELECT 1 FROM anarchon_runs_attempts a WHERE a.job = l.job AND a.id = 'skip' \
                     AND (a.last_slot > l.newest) IS NOT FALSE) \
                   OR l.newest_ident IS NOT NULL AND NOT EXISTS (SELECT 1 FROM anarchon_runs_jobs f \
                     WHERE f.job = l.job AND f.ident = l.newest_ident AND f.floor < l.newest))";
    assert_eq!(number(url, after).await, 0, "{place:?}");
    let noted = "SELECT count(*) FROM anarchon_runs_jobs WHERE ident = '' AND newest_ident IS NOT NULL";
    assert_ne!(number(url, noted).await, 0, "{place:?}");
}

#[tokio::test]
async fn postgres_15_answers_as_the_rules_do() {
    play_at(V15, 1).await;
}

#[tokio::test]
async fn postgres_18_answers_as_the_rules_do() {
    play_at(V18, 1001).await;
}

#[tokio::test]
async fn postgres_behind_a_pooler_answers_as_the_rules_do() {
    play_at(POOLED_1_24, 2001).await;
}
