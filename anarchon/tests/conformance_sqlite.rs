//! The conformance suite on SQLite: the backend on a file, and on the way that servers without sessions of ours go.
#![cfg(all(feature = "testing", feature = "sqlite"))]
#![allow(clippy::expect_used, reason = "a test without its directory cannot go on")]

use std::path::PathBuf;

use anarchon::backend::SqliteDialect;
use anarchon::backend::sql::SqlBackend;
use anarchon::backend::sql::clients::SqlxSqlite;
use anarchon::testing::conformance::{Fixture, Transactions};
use anarchon::{SqliteBackend, Token};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Sqlite, SqlitePool, Transaction};

/// A directory with one database, which goes with the fixture.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("anarchon-conformance-{}", Token::random()));
        std::fs::create_dir(&path).expect("a directory can be made");
        Self(path)
    }

    fn file(&self) -> String {
        self.0.join("store.db").to_str().expect("a path in UTF-8").to_owned()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

struct File(Directory);

impl Fixture for File {
    type Backend = SqliteBackend;

    async fn backend(&self) -> SqliteBackend {
        SqliteBackend::new(self.0.file())
    }
}

/// The same with a pool of the user's.
struct WithPool(File, SqlitePool);

impl WithPool {
    async fn new() -> Self {
        let directory = Directory::new();
        let options = SqliteConnectOptions::new().filename(directory.file()).create_if_missing(true);
        Self(File(directory), SqlitePool::connect_with(options).await.expect("a pool"))
    }
}

impl Fixture for WithPool {
    type Backend = SqliteBackend;

    async fn backend(&self) -> SqliteBackend {
        self.0.backend().await
    }
}

impl Transactions for WithPool {
    type Db = Sqlite;

    const LOCKS_ROWS: bool = false;

    async fn begin(&self) -> Transaction<'static, Sqlite> {
        self.1.begin_with("BEGIN IMMEDIATE").await.expect("a transaction")
    }

    async fn begin_stricter(&self) -> Option<Transaction<'static, Sqlite>> {
        None
    }
}

struct Portable(Directory);

impl Fixture for Portable {
    type Backend = SqlBackend<SqlxSqlite, SqliteDialect>;

    async fn backend(&self) -> Self::Backend {
        let dialect = SqliteDialect::new().without_sessions();
        SqlBackend::new("sqlite", SqlxSqlite::at(&self.0.file()), dialect).table("other_runs")
    }
}

anarchon::lease_conformance!(sqlite, || async { File(Directory::new()) });
anarchon::history_by_age_conformance!(sqlite_by_age, || async { File(Directory::new()) });
anarchon::lease_conformance!(portable, || async { Portable(Directory::new()) });
anarchon::history_by_age_conformance!(portable_by_age, || async { Portable(Directory::new()) });
anarchon::transactional_finish_conformance!(sqlite_within, async || WithPool::new().await);
