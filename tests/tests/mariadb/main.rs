//! The MySQL backend on a real MariaDB, or on the server at `ANARCHON_TEST_MYSQL_URL`, which may be a MySQL.

#![cfg(unix)]
#![allow(clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod differential;
mod failures;
mod locks;
mod plans;

use anarchon::MySqlBackend;
use anarchon::testing::conformance::{Fixture, Transactions};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::{Executor as _, MySql, Transaction};
use tests::servers::{Database, MariaDb};

/// A database of a test's own, if there is a server.
struct OwnDatabase(Option<Database>);

impl OwnDatabase {
    fn url(&self) -> &str {
        self.0.as_ref().expect("a database").url()
    }
}

impl Fixture for OwnDatabase {
    type Backend = MySqlBackend;

    fn is_there(&self) -> bool {
        self.0.is_some()
    }

    async fn backend(&self) -> MySqlBackend {
        MySqlBackend::new(self.url())
    }
}

impl OwnDatabase {
    async fn begun(&self, level: &'static str) -> Transaction<'static, MySql> {
        let pool = MySqlPoolOptions::new()
            .after_connect(move |connection, _| Box::pin(async move { connection.execute(level).await.map(|_| ()) }));
        let pool = pool.connect(self.url()).await.expect("a pool of the application's");
        pool.begin().await.expect("a transaction")
    }
}

impl Transactions for OwnDatabase {
    type Db = MySql;

    const LOCKS_ROWS: bool = true;

    async fn begin(&self) -> Transaction<'static, MySql> {
        self.begun("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await
    }

    async fn begin_stricter(&self) -> Option<Transaction<'static, MySql>> {
        Some(self.begun("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ").await)
    }
}

async fn fixture() -> OwnDatabase {
    OwnDatabase(MariaDb::shared().map(MariaDb::database))
}

anarchon::lease_conformance!(mariadb, fixture);
anarchon::history_by_age_conformance!(mariadb_history, fixture);
anarchon::transactional_finish_conformance!(mariadb_within, fixture);
