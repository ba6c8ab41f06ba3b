//! Handlers that fail and panic.

use anarchon::{AttemptStatus, Status};
use tests::check::never_two_at_once;
use tests::{Lab, NodeOptions};

use super::{every_second, hourly, in_good_time};

pub(crate) fn a_handler_that_panics_is_recorded_and_the_next_slot_runs(lab: &Lab) {
    let jobs = format!("{}{}", every_second("boom", "panic", ""), every_second("calm", "none", ""));
    let mut nodes = lab.start_all(["a", "b"], &jobs, &NodeOptions::default());
    let first = lab.wait_start("boom", 1);
    lab.wait_for("runs of three slots", |lines| {
        let finished = |job: &str| lines.iter().filter(|line| line.is("finished", job)).count();
        (finished("boom") >= 3 && finished("calm") >= 3).then_some(())
    });
    nodes.iter_mut().for_each(tests::Node::stop);

    never_two_at_once(&lab.attempts());
    let history = lab.client().attempts("boom", first.slot.expect("a slot"));
    assert_eq!(history.len(), 1);
    assert_eq!((history[0].status, history[0].run_status), (Some(AttemptStatus::Failed), Some(Status::Failed)));
    let error = history[0].error.as_deref().unwrap_or_default();
    assert!(error.contains("panicked as told"), "{error}");
}

pub(crate) fn a_failed_attempt_is_started_again_on_another_instance(lab: &Lab) {
    let options = NodeOptions::default();
    let (fails, slot) = hourly("export", 8000, "fail", "retry_failed = \"2s\"");
    let mut one = lab.start("a", &fails, &options);
    in_good_time(slot);
    let first = lab.wait_start("export", 1);
    let failed = lab.wait_line("its failure", |line| line.is_of("finished", &first));
    assert_eq!(failed.how.as_deref(), Some("failed, run waiting: failed as told"));
    one.stop();
    let _other = lab.start("b", &fails.replace("\"fail\"", "\"none\""), &options);

    let second = lab.wait_start("export", 2);
    assert_eq!((second.slot, second.instance.as_str()), (Some(slot), "b"));
    assert_eq!(second.reason.as_deref(), Some("retry"));
    let end = lab.lines().into_iter().find(|line| line.is_of("end", &first)).expect("it ended");
    assert!(second.mono_ns >= end.mono_ns + 2_000_000_000, "started again before its wait was over");
    lab.wait_line("its end", |line| line.is_of("finished", &second));
    let history = lab.client().attempts("export", slot);
    let statuses: Vec<Option<AttemptStatus>> = history.iter().map(|attempt| attempt.status).collect();
    assert_eq!(statuses, [Some(AttemptStatus::Failed), Some(AttemptStatus::Done)]);
    never_two_at_once(&lab.attempts());
}

pub(crate) fn a_job_that_always_fails_is_started_as_often_as_max_attempts_says(lab: &Lab) {
    let (jobs, slot) = hourly("export", 8000, "fail", "retry_failed = \"200ms\"\nmax_attempts = 3");
    let mut nodes = lab.start_all(["a", "b", "c"], &jobs, &NodeOptions::default());
    in_good_time(slot);
    let last = lab.wait_start("export", 3);
    let finished = lab.wait_line("its end", |line| line.is_of("finished", &last));
    assert_eq!(finished.how.as_deref(), Some("failed, run failed: failed as told"));
    // Waits double: 200 ms, then 400 ms. A fourth attempt would come after 800 ms.
    lab.wait_until_ms(tests::wall_ms() + 1500);
    nodes.iter_mut().for_each(tests::Node::stop);
    let attempts = lab.attempts();
    never_two_at_once(&attempts);
    assert_eq!(attempts.len(), 3, "{attempts:?}");
}

pub(crate) fn a_run_that_takes_too_long_is_cancelled_and_recorded_as_timed_out(lab: &Lab) {
    let jobs = every_second("slow", "sleep 60s", "timeout = \"500ms\"");
    let mut nodes = lab.start_all(["a", "b"], &jobs, &NodeOptions::default());
    let first = lab.wait_start("slow", 1);
    let cancelled = lab.wait_line("its cancellation", |line| line.is_of("cancelled", &first));
    assert_eq!(cancelled.how.as_deref(), Some("time-out"));
    lab.wait_line("a later run", |line| line.is("finished", "slow") && line.slot > first.slot);
    nodes.iter_mut().for_each(tests::Node::stop);
    never_two_at_once(&lab.attempts());
    let history = lab.client().attempts("slow", first.slot.expect("a slot"));
    assert_eq!(history.iter().map(|a| a.status).collect::<Vec<_>>(), [Some(AttemptStatus::TimedOut)]);
}
