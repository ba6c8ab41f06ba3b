//! A directory that goes with the test, a small seeded generator, and a clock that is set by hand.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::backend::sql::clients::SqlxSqlite;
use crate::backend::sql::{SqlBackend, SqlClient as _, Statement, Value};
use crate::backend::{Backend as _, SqliteDialect};
use crate::clock::Clock;

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

/// splitmix64: good enough to wander with, and the same for ever.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap()].clone()
    }
}

/// A clock that stands still until it is set.
#[derive(Debug)]
pub(super) struct HandClock(Mutex<i64>);

impl HandClock {
    pub(super) fn at(ms: i64) -> Self {
        Self(Mutex::new(ms))
    }

    pub(super) fn set(&self, ms: i64) {
        *self.0.lock().unwrap() = ms;
    }
}

impl Clock for HandClock {
    fn wall_ms(&self) -> i64 {
        *self.0.lock().unwrap()
    }

    fn boot(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep_until(&self, _at: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// An SQLite store whose clock is a row of its own file.
pub(super) type Store = SqlBackend<SqlxSqlite, SqliteDialect>;

pub(super) async fn store_at(path: &str, dialect: SqliteDialect, now: i64) -> Store {
    let clock = "(SELECT v FROM anarchon_runs_meta WHERE k = 'hand')";
    let store = SqlBackend::new("sqlite", SqlxSqlite::at(path), dialect.with_clock(clock));
    store.connect().await.unwrap();
    set_clock(&store, now).await;
    store
}

pub(super) async fn set_clock(store: &Store, now: i64) {
    let sql = "INSERT INTO anarchon_runs_meta (k, v) VALUES ('hand', ?) ON CONFLICT (k) DO UPDATE SET v = excluded.v";
    store.client().batch(vec![Statement::new(sql, vec![Value::Int(now)])]).await.unwrap();
}
