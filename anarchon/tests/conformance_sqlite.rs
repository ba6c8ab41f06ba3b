//! The conformance suite on SQLite: the backend on a file, and on the way that servers without sessions of ours go.
#![cfg(all(feature = "testing", feature = "sqlite"))]
#![allow(clippy::expect_used, reason = "a test without its directory cannot go on")]

use std::path::PathBuf;

use anarchon::backend::SqliteDialect;
use anarchon::backend::sql::SqlBackend;
use anarchon::backend::sql::clients::SqlxSqlite;
use anarchon::testing::conformance::Fixture;
use anarchon::{SqliteBackend, Token};

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
