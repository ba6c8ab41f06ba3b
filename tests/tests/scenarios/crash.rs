//! Processes are killed.

use std::time::Duration;

use anarchon::{AttemptStatus, Status};
use tests::check::{Attempt, never_two_at_once};
use tests::{Lab, NodeOptions};

use super::{every_second, within};

pub(crate) fn a_killed_runner_is_followed_by_another_within_its_lease_and_a_second(lab: &Lab) {
    let jobs = every_second("long", "sleep 60s", "");
    let mut nodes = lab.start_all(["a", "b", "c"], &jobs, &NodeOptions::default());
    let first = lab.wait_start("long", 1);
    // Another slot came and was skipped: the run has been going on for a while, and its lease was renewed.
    lab.wait_line("a skipped slot", |line| line.is("skipped", "long"));
    let runner = nodes.iter_mut().find(|node| node.name == first.instance).expect("one of ours");
    runner.kill();

    // The lease was renewed at the latest when the process died.
    let died = lab.deaths()[0].mono_ns;
    let second = lab.wait_start("long", 2);
    assert_eq!(second.slot, first.slot);
    assert_ne!(second.instance, first.instance);
    assert_eq!(second.reason.as_deref(), Some("takeover"));
    within(Duration::from_secs(3 + 1), died, second.mono_ns);
    never_two_at_once(&lab.attempts());

    let history = lab.client().attempts("long", first.slot.expect("a slot"));
    let statuses: Vec<Option<AttemptStatus>> = history.iter().map(|attempt| attempt.status).collect();
    assert_eq!(statuses, [Some(AttemptStatus::Lost), Some(AttemptStatus::Running)]);
}

pub(crate) fn a_run_whose_processes_were_all_killed_is_run_once_more_after_a_restart(lab: &Lab) {
    let options = NodeOptions::default();
    let mut nodes = lab.start_all(["a", "b", "c"], &every_second("long", "sleep 60s", ""), &options);
    let first = lab.wait_start("long", 1);
    nodes.iter_mut().for_each(|node| {
        node.kill();
    });

    let restarted = lab.start_all(["d", "e", "f"], &every_second("long", "sleep 500ms", ""), &options);
    let second = lab.wait_start("long", 2);
    assert_eq!(second.slot, first.slot);
    lab.wait_line("its end", |line| line.is_of("end", &second));
    // The job goes on with later slots.
    lab.wait_line("a later run", |line| line.is("end", "long") && line.slot > first.slot);
    drop(restarted);

    let attempts = lab.attempts();
    never_two_at_once(&attempts);
    assert_eq!(attempts.iter().filter(|attempt| attempt.start.slot == first.slot).count(), 2);
    let history = lab.client().attempts("long", first.slot.expect("a slot"));
    let statuses: Vec<Option<AttemptStatus>> = history.iter().map(|attempt| attempt.status).collect();
    assert_eq!(statuses, [Some(AttemptStatus::Lost), Some(AttemptStatus::Done)]);
}

pub(crate) fn a_job_with_one_attempt_is_not_started_again_when_its_runner_is_killed(lab: &Lab) {
    let jobs = every_second("charge", "sleep 60s", "max_attempts = 1");
    let mut nodes = lab.start_all(["a", "b", "c"], &jobs, &NodeOptions::default());
    let first = lab.wait_start("charge", 1);
    nodes.iter_mut().find(|node| node.name == first.instance).expect("one of ours").kill();

    // Once the lease is over the run is closed, and a later slot runs.
    let later = lab.wait_line("a run of a later slot", |line| line.is("start", "charge") && line.slot > first.slot);
    assert_ne!(later.instance, first.instance);
    drop(nodes);
    let attempts = lab.attempts();
    never_two_at_once(&attempts);
    assert_eq!(attempts.iter().filter(|attempt| attempt.start.slot == first.slot).count(), 1);
    assert!(attempts.iter().all(|attempt| attempt.number() == 1));
    let history = lab.client().attempts("charge", first.slot.expect("a slot"));
    assert_eq!(history.len(), 1, "{history:?}");
    assert_eq!((history[0].status, history[0].run_status), (Some(AttemptStatus::Lost), Some(Status::Dead)));
}

pub(crate) fn an_attempt_that_dies_each_time_is_started_as_often_as_max_attempts_says(lab: &Lab) {
    let options = NodeOptions::default();
    let jobs = every_second("deadly", "sleep 60s", "max_attempts = 2");
    let mut first = lab.start("a", &jobs, &options);
    let start = lab.wait_start("deadly", 1);
    first.kill();
    let mut second = lab.start("b", &jobs, &options);
    let again = lab.wait_start("deadly", 2);
    assert_eq!(again.slot, start.slot);
    second.kill();
    let _third = lab.start("c", &jobs, &options);
    lab.wait_line("a run of a later slot", |line| line.is("start", "deadly") && line.slot > start.slot);
    let attempts = lab.attempts();
    never_two_at_once(&attempts);
    let of_first: Vec<&Attempt> = attempts.iter().filter(|attempt| attempt.start.slot == start.slot).collect();
    assert_eq!(of_first.len(), 2, "{of_first:?}");
    let history = lab.client().attempts("deadly", start.slot.expect("a slot"));
    assert_eq!(history.last().and_then(|attempt| attempt.run_status), Some(Status::Dead), "{history:?}");
}
