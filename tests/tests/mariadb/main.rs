//! The MySQL backend on a real MariaDB, or on the server at `ANARCHON_TEST_MYSQL`, which may be a MySQL.

#![cfg(unix)]
#![allow(clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod differential;

use anarchon::MySqlBackend;
use anarchon::testing::conformance::{Fixture, Transactions};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::{Executor as _, MySql, Transaction};
use tests::servers::{Database, MariaDb};

/// A database of a test's own.
struct OwnDatabase(Database);

impl Fixture for OwnDatabase {
    type Backend = MySqlBackend;

    async fn backend(&self) -> MySqlBackend {
        MySqlBackend::new(self.0.url())
    }
}

impl OwnDatabase {
    async fn begun(&self, level: &'static str) -> Transaction<'static, MySql> {
        let pool = MySqlPoolOptions::new()
            .after_connect(move |connection, _| Box::pin(async move { connection.execute(level).await.map(|_| ()) }));
        let pool = pool.connect(self.0.url()).await.expect("a pool of the application's");
        pool.begin().await.expect("a transaction")
    }
}

impl Transactions for OwnDatabase {
    type Db = MySql;

    const LOCKS_ROWS: bool = true;
    // A claim finds the unfinished runs by an index from which the transaction has taken its run.
    const CLAIMS_PASS_LOCKED: bool = false;

    async fn begin(&self) -> Transaction<'static, MySql> {
        self.begun("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await
    }

    async fn begin_stricter(&self) -> Option<Transaction<'static, MySql>> {
        Some(self.begun("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ").await)
    }
}

async fn fixture() -> OwnDatabase {
    OwnDatabase(MariaDb::shared().expect("a MariaDB").database())
}

anarchon::lease_conformance!(mariadb, fixture);
anarchon::history_by_age_conformance!(mariadb_history, fixture);
anarchon::transactional_finish_conformance!(mariadb_within, fixture);
