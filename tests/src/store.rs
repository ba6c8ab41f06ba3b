//! Stores that tests run on.

use std::fmt;
use std::path::Path;

use sqlx::{Connection as _, Executor as _, SqliteConnection};

/// A server that a test may start, kill and start again.
pub trait Server: fmt::Debug {
    /// Starts it, with the data it had; returns once it answers.
    fn start(&mut self);
    /// Kills it, as a crash of its machine would.
    fn kill(&mut self);
}

/// A store: where it is, and its server if it has one of its own.
#[derive(Debug)]
pub struct Store {
    url: String,
    server: Option<Box<dyn Server>>,
}

impl Store {
    /// A store at `url`, on a server that this test may kill, if there is one.
    #[must_use]
    pub fn new(url: impl Into<String>, server: Option<Box<dyn Server>>) -> Self {
        Self { url: url.into(), server }
    }

    /// A new SQLite file in `directory`.
    #[must_use]
    pub fn sqlite(directory: &Path) -> Self {
        Self::new(format!("sqlite:{}", directory.join("store.db").display()), None)
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether somebody holds a lock of it for longer than a moment, so that nobody can write: a file has such locks.
    ///
    /// # Panics
    /// When the file cannot be opened.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        if !self.url.starts_with("sqlite:") {
            return false;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut connection = SqliteConnection::connect(&self.url).await.expect("the file is there");
            connection.execute("PRAGMA busy_timeout = 300").await.expect("a pragma");
            let free = connection.execute("BEGIN IMMEDIATE; ROLLBACK").await.is_ok();
            connection.close().await.expect("a close");
            !free
        })
    }

    /// Its server; a store in a file has none.
    pub fn server(&mut self) -> Option<&mut (dyn Server + 'static)> {
        self.server.as_deref_mut()
    }
}
