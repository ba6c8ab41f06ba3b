//! SQLite beside the memory store: see [`differential`](crate::testing::differential).

use super::support::{Directory, store_at};
use crate::backend::SqliteDialect;

const STEPS: u64 = 6_000;

#[tokio::test]
async fn sqlite_answers_as_the_rules_do() {
    play(SqliteDialect::new(), 1).await;
}

#[tokio::test]
async fn sqlite_answers_as_the_rules_do_without_sessions() {
    play(SqliteDialect::new().without_sessions(), 101).await;
}

async fn play(dialect: SqliteDialect, first_seed: u64) {
    let directory = Directory::new();
    crate::testing::differential::play(first_seed, STEPS, async |seed| {
        store_at(&directory.file(&format!("{seed}.db")), dialect.clone(), 0).await
    })
    .await;
}
