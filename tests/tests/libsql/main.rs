//! The libSQL backend on a real sqld, or on the server at `ANARCHON_TEST_LIBSQL`.

#![cfg(unix)]
#![allow(clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod differential;

use anarchon::LibsqlBackend;
use anarchon::testing::conformance::Fixture;
use tests::servers::Sqld;

/// A server of a test's own.
struct Own(Sqld);

impl Fixture for Own {
    type Backend = LibsqlBackend;

    async fn backend(&self) -> LibsqlBackend {
        LibsqlBackend::new(self.0.url(), "")
    }
}

async fn fixture() -> Own {
    Own(Sqld::own().expect("a sqld"))
}

anarchon::lease_conformance!(libsql, fixture);
anarchon::history_by_age_conformance!(libsql_history, fixture);
