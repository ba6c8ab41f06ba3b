//! A directory that goes with the test, and a store in it whose clock is set by hand.

use std::path::{Path, PathBuf};

use crate::backend::sql::SqlBackend;
use crate::backend::sql::clients::SqlxSqlite;
use crate::backend::{Backend as _, SqliteDialect};
pub(super) use crate::testing::differential::Random;
use crate::testing::differential::{HAND_CLOCK, HandClocked as _};

pub(super) struct Directory(PathBuf);

impl Directory {
    pub(super) fn new() -> Self {
        let name = format!("anarchon-test-{}-{:016x}", std::process::id(), rand::random::<u64>());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(super) fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// An SQLite store whose clock is a row of its own file.
pub(super) type Store = SqlBackend<SqlxSqlite, SqliteDialect>;

pub(super) async fn store_at(path: &str, dialect: SqliteDialect, now: i64) -> Store {
    let store = SqlBackend::new("sqlite", SqlxSqlite::at(path), dialect.with_clock(HAND_CLOCK));
    store.connect().await.unwrap();
    store.set_clock(now).await;
    store
}
