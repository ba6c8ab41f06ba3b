//! The libSQL backend on a real sqld, or, but for what kills it, on the server at `ANARCHON_TEST_LIBSQL_URL`.

#![cfg(unix)]
#![allow(clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod differential;
mod failures;

use std::sync::atomic::{AtomicU32, Ordering};

use anarchon::LibsqlBackend;
use anarchon::testing::conformance::Fixture;
use tests::servers::Sqld;

/// A store of a test's own.
enum Place {
    Server(Sqld),
    /// Tables on the developer's server, whose token is in the URL.
    Tables(String, String),
    /// There is no server.
    Nowhere,
}

impl Place {
    fn new() -> Self {
        static PLACES: AtomicU32 = AtomicU32::new(0);
        if let Ok(url) = std::env::var("ANARCHON_TEST_LIBSQL_URL") {
            let table = format!("anarchon_{}_{}", std::process::id(), PLACES.fetch_add(1, Ordering::Relaxed));
            return Self::Tables(url, table);
        }
        Sqld::own().map_or(Self::Nowhere, Self::Server)
    }
}

impl Fixture for Place {
    type Backend = LibsqlBackend;

    fn is_there(&self) -> bool {
        !matches!(self, Self::Nowhere)
    }

    async fn backend(&self) -> LibsqlBackend {
        match self {
            Self::Server(server) => LibsqlBackend::new(server.url(), ""),
            Self::Tables(url, table) => LibsqlBackend::new(url, "").table(table),
            Self::Nowhere => panic!("there is no server"),
        }
    }

    async fn clean_up(&self) {
        use anarchon::backend::SqliteDialect;
        use anarchon::backend::sql::clients::LibsqlClient;
        use anarchon::backend::sql::{SqlClient as _, Statement};

        if let Self::Tables(url, table) = self {
            let client = LibsqlClient::at(url, "", SqliteDialect::new());
            let names = ["", "_attempts", "_jobs", "_meta"].map(|suffix| format!("DROP TABLE {table}{suffix}"));
            let drops = names.into_iter().map(|sql| Statement::new(sql, Vec::new())).collect();
            client.batch(drops).await.expect("the tables can go");
        }
    }
}

async fn fixture() -> Place {
    Place::new()
}

anarchon::lease_conformance!(libsql, fixture);
anarchon::history_by_age_conformance!(libsql_history, fixture);
