//! Processes are stopped with SIGTERM, as a deployment does.

use std::time::Duration;

use anarchon::AttemptStatus;
use tests::check::never_two_at_once;
use tests::{Lab, Line, NodeOptions};

use super::{every_second, within};

/// Three processes; the one that runs the job is stopped. Returns the starts of the first and second attempts.
fn stop_the_runner(lab: &Lab, work: &str) -> (Line, Line) {
    let jobs = every_second("long", work, "");
    let mut nodes = lab.start_all(["a", "b", "c"], &jobs, &NodeOptions::default());
    let first = lab.wait_start("long", 1);
    let runner = nodes.iter_mut().find(|node| node.name == first.instance).expect("one of ours");
    runner.stop();
    let second = lab.wait_start("long", 2);
    assert_eq!(second.slot, first.slot);
    assert_ne!(second.instance, first.instance);
    assert_eq!(second.reason.as_deref(), Some("hand-over"));

    // The store had released it at the latest when the one that stopped knew.
    let released = lab.wait_line("the hand-over", |line| line.is_of("handed-over", &first));
    within(Duration::from_millis(500 + 500), released.mono_ns, second.mono_ns);
    drop(nodes);
    never_two_at_once(&lab.attempts());
    let history = lab.client().attempts("long", first.slot.expect("a slot"));
    assert_eq!(history[0].status, Some(AttemptStatus::HandedOver));
    (first, second)
}

pub(crate) fn a_handler_that_hears_of_the_stop_is_handed_over_at_once(lab: &Lab) {
    let (first, _) = stop_the_runner(lab, "sleep 60s");
    let stopping = lab.wait_line("the stop", |line| line.event == "stopping");
    let cancelled = lab.wait_line("its cancellation", |line| line.is_of("cancelled", &first));
    assert_eq!(cancelled.how.as_deref(), Some("stop"));
    within(Duration::ZERO, stopping.mono_ns, cancelled.mono_ns);
}

pub(crate) fn a_handler_that_does_not_hear_of_the_stop_is_dropped_after_its_grace_and_then_handed_over(lab: &Lab) {
    let (first, second) = stop_the_runner(lab, "ignore 60s");
    let stopping = lab.wait_line("the stop", |line| line.event == "stopping");
    let cancelled = lab.wait_line("its drop", |line| line.is_of("cancelled", &first));
    assert_eq!(cancelled.how.as_deref(), Some("dropped"));
    assert!(cancelled.mono_ns - stopping.mono_ns >= 1_000_000_000, "dropped before its grace was over");
    within(Duration::from_secs(1), stopping.mono_ns, cancelled.mono_ns);
    assert!(second.mono_ns > cancelled.mono_ns);
}

pub(crate) fn a_job_with_one_attempt_is_let_end_by_a_stop_and_not_started_again(lab: &Lab) {
    let jobs = every_second("charge", "sleep 3s", "max_attempts = 1");
    let mut nodes = lab.start_all(["a", "b", "c"], &jobs, &NodeOptions::default());
    let first = lab.wait_start("charge", 1);
    let runner = nodes.iter_mut().find(|node| node.name == first.instance).expect("one of ours");
    runner.stop();
    let end = lab.wait_line("its end", |line| line.is_of("end", &first));
    assert_eq!(end.how.as_deref(), Some("done"));
    // The others go on with a later slot.
    lab.wait_line("a later run", |line| line.is("start", "charge") && line.slot > first.slot);
    drop(nodes);
    let attempts = lab.attempts();
    never_two_at_once(&attempts);
    assert!(attempts.iter().all(|attempt| attempt.number() == 1), "{attempts:?}");
    let history = lab.client().attempts("charge", first.slot.expect("a slot"));
    assert_eq!(history.iter().map(|a| a.status).collect::<Vec<_>>(), [Some(AttemptStatus::Done)]);
}

pub(crate) fn a_run_that_is_handed_over_by_the_last_process_is_started_by_the_next_one(lab: &Lab) {
    let options = NodeOptions::default();
    let mut last = lab.start("a", &every_second("long", "sleep 60s", ""), &options);
    let first = lab.wait_start("long", 1);
    last.stop();
    let _next = lab.start("b", &every_second("long", "none", ""), &options);
    let second = lab.wait_start("long", 2);
    assert_eq!(second.slot, first.slot);
    assert_eq!(second.reason.as_deref(), Some("hand-over"));
    never_two_at_once(&lab.attempts());
}

pub(crate) fn a_handler_that_blocks_its_thread_through_a_stop_is_not_handed_over_and_the_stop_says_so(lab: &Lab) {
    let jobs = every_second("stuck", "block 120s", "");
    let mut blocked = lab.start("a", &jobs, &NodeOptions::default().set("--stop-grace", "100ms"));
    let first = lab.wait_start("stuck", 1);
    let _other = lab.start("b", &every_second("stuck", "none", ""), &NodeOptions::default());
    blocked.terminate();
    let status = blocked.wait();
    assert_eq!(status.code(), Some(1), "{}", blocked.stderr());
    assert!(blocked.stderr().contains("still running") && blocked.stderr().contains("`stuck`"), "{}", blocked.stderr());

    // Nobody was told that it may start: its lease had to run out.
    let second = lab.wait_start("stuck", 2);
    assert_eq!((second.slot, second.reason.as_deref()), (first.slot, Some("takeover")));
    never_two_at_once(&lab.attempts());
    assert!(!lab.lines().iter().any(|line| line.event == "handed-over"));
}
