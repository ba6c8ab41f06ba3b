//! The MySQL backend on a real MariaDB, or on the server at `ANARCHON_TEST_MYSQL`, which may be a MySQL.

#![cfg(unix)]
#![allow(clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod differential;
mod failures;
mod locks;

use anarchon::MySqlBackend;
use anarchon::testing::conformance::Fixture;
use tests::servers::{Database, MariaDb};

/// A database of a test's own, if there is a server.
struct OwnDatabase(Option<Database>);

impl Fixture for OwnDatabase {
    type Backend = MySqlBackend;

    fn is_there(&self) -> bool {
        self.0.is_some()
    }

    async fn backend(&self) -> MySqlBackend {
        MySqlBackend::new(self.0.as_ref().expect("a database").url())
    }
}

async fn fixture() -> OwnDatabase {
    OwnDatabase(MariaDb::shared().map(MariaDb::database))
}

anarchon::lease_conformance!(mariadb, fixture);
anarchon::history_by_age_conformance!(mariadb_history, fixture);
