//! A library of jobs that no code names is not linked, and that is said.

use anarchon::{Error, MemoryBackend, Scheduler};

#[tokio::test]
async fn a_program_without_any_linked_job_is_told_how_to_link_one() {
    let refused = Scheduler::builder(MemoryBackend::new()).registered().start().await.expect_err("a refusal");
    assert!(matches!(refused, Error::NoJobs), "{refused}");
    assert!(refused.to_string().contains("use my_jobs as _;"), "{refused}");
}
