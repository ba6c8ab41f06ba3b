//! `fail/<topic>/<idea>.rs` with its message in `.stderr`, and `pass/<idea>.rs`, which are run too.
//!
//! `TRYBUILD=overwrite cargo test -p ui-tests` writes the messages anew: read each as the one who made the mistake.

#[test]
fn programs() {
    let tests = trybuild::TestCases::new();
    tests.pass("pass/*.rs");
    tests.compile_fail("fail/*/*.rs");
}
