//! A store that another crate brings along is as good as one of ours.

#![cfg(unix)]
#![allow(clippy::expect_used, reason = "helpers of tests fail as tests do")]

use anarchon::AnyBackend;
use anarchon::testing::conformance::Fixture;
use tempfile::TempDir;
use tests_driver as _;

struct Own(TempDir);

impl Fixture for Own {
    type Backend = AnyBackend;

    async fn backend(&self) -> AnyBackend {
        AnyBackend::connect(&format!("mine:{}", self.0.path().join("store").display())).expect("its scheme is known")
    }
}

async fn fixture() -> Own {
    Own(tempfile::tempdir().expect("a temporary directory"))
}

anarchon::lease_conformance!(mine, fixture);
anarchon::history_by_age_conformance!(mine_history, fixture);

#[test]
fn its_scheme_is_told_to_those_who_name_another() {
    let error = AnyBackend::connect("thine:").expect_err("nobody brings that").to_string();
    assert!(error.contains("`mine:`") && error.contains("`thine:`"), "{error}");
    let error = AnyBackend::connect("mine:").expect_err("no file").to_string();
    assert!(error.contains("names no file"), "{error}");
}
