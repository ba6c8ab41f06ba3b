//! Jobs of a library are found at link time, once the program names the library.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use anarchon::{AttemptStatus, ClaimOnlyMemoryBackend, Error, MemoryBackend, Scheduler};
use tests_jobs as _;

/// A job of the program itself.
#[anarchon::job(every = "1h")]
async fn own_job() {}

#[tokio::test]
async fn jobs_of_a_library_run_beside_those_of_the_program() {
    let counter = tests_jobs::Counter::default();
    let scheduler = Scheduler::builder(MemoryBackend::new()).registered().state(Arc::clone(&counter)).start();
    let scheduler = scheduler.await.expect("a start");
    let names: Vec<String> =
        scheduler.jobs().await.expect("jobs").into_iter().map(|job| job.name.to_string()).collect();
    assert_eq!(names, ["library-count", "library_export", "library_sweep", "own_job"]);

    let run = scheduler.run_now("library-count").await.expect("a run");
    assert_eq!(run.finished().await.expect("its end"), AttemptStatus::Done);
    assert_eq!(counter.load(Ordering::SeqCst), 1);
    scheduler.stop().await.expect("a stop");
}

#[tokio::test]
async fn a_state_that_a_job_of_a_library_needs_is_asked_for_at_start() {
    let refused = Scheduler::builder(MemoryBackend::new()).registered().start().await.expect_err("a refusal");
    assert!(matches!(refused, Error::MissingState { .. }), "{refused}");
    let text = refused.to_string();
    assert!(text.contains("`library-count`") && text.contains("jobs/src/lib.rs:"), "{text}");
}

#[tokio::test]
async fn a_job_of_a_library_that_needs_leases_is_refused_at_start_by_a_store_that_only_claims() {
    let builder = Scheduler::builder(ClaimOnlyMemoryBackend::new()).registered().state(tests_jobs::Counter::default());
    let text = builder.start().await.expect_err("a refusal").to_string();
    for word in ["`library_export`", "`overlap`", "jobs/src/lib.rs:", "leases"] {
        assert!(text.contains(word), "no {word} in: {text}");
    }
}
