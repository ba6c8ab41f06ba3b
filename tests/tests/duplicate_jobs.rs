//! A job of the program has the name of one in a library.

use anarchon::{Error, MemoryBackend, Scheduler};
use tests_jobs as _;

/// Its name is taken, which neither crate can know.
#[anarchon::job(every = "1h")]
async fn library_sweep() {}

#[tokio::test]
async fn two_jobs_of_one_name_are_refused_at_start_naming_both_places() {
    let builder = Scheduler::builder(MemoryBackend::new()).registered().state(tests_jobs::Counter::default());
    let refused = builder.start().await.expect_err("a refusal");
    assert!(matches!(refused, Error::DuplicateJob { .. }), "{refused}");
    let text = refused.to_string();
    for word in ["`library_sweep`", "jobs/src/lib.rs:", "duplicate_jobs.rs:"] {
        assert!(text.contains(word), "no {word} in: {text}");
    }
}
