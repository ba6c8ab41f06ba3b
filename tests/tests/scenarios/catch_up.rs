//! Slots that fall due while every process is down.

use tests::check::{Attempt, grid, no_attempt_twice};
use tests::{Lab, NodeOptions, wall_ms};

use super::{every_second, hourly, in_good_time};

/// A process makes the job known and stops before its slot; when that is over, three others start. Returns the starts
/// of the job within a while after that.
fn all_down_when_due(lab: &Lab, more: &str) -> (i64, Vec<tests::Line>) {
    let options = NodeOptions::default();
    let (jobs, slot) = hourly("nightly", 8000, "none", more);
    lab.start("before", &jobs, &options).stop();
    in_good_time(slot);
    lab.wait_until_ms(slot + 1200);
    let mut nodes = lab.start_all(["a", "b", "c"], &jobs, &options);
    lab.wait_until_ms(wall_ms() + 2000);
    nodes.iter_mut().for_each(tests::Node::stop);
    no_attempt_twice(&lab.attempts());
    (slot, lab.lines().into_iter().filter(|line| line.is("start", "nightly")).collect())
}

pub(crate) fn a_slot_that_was_due_while_all_were_down_is_caught_up_with_once(lab: &Lab) {
    let (slot, starts) = all_down_when_due(lab, "max_late = \"500ms\"\ncatch_up = \"30m\"");
    assert_eq!(starts.len(), 1, "{starts:?}");
    assert_eq!(starts[0].slot, Some(slot));
    assert_eq!(starts[0].reason.as_deref(), Some("catch-up"));
}

pub(crate) fn without_catch_up_a_slot_that_was_due_while_all_were_down_is_not_run(lab: &Lab) {
    let (_, starts) = all_down_when_due(lab, "max_late = \"500ms\"\ncatch_up = \"0s\"");
    assert!(starts.is_empty(), "{starts:?}");
    assert!(lab.client().history("nightly").is_empty());
}

pub(crate) fn of_many_slots_that_were_missed_only_the_latest_is_caught_up_with(lab: &Lab) {
    let options = NodeOptions::default();
    let jobs = every_second("tick", "none", "overlap = \"allow\"");
    let mut before = lab.start("before", &jobs, &options);
    lab.wait_start("tick", 1);
    before.stop();
    let down = wall_ms();
    lab.wait_until_ms(down + 5000);
    let up = wall_ms();
    let mut nodes = lab.start_all(["a", "b", "c"], &jobs, &options);
    // The first process may have caught up with a slot as well: one that fell due while it started.
    let caught_up = lab.wait_line("a catch-up", |line| {
        line.is("start", "tick") && line.slot > Some(down) && line.reason.as_deref() == Some("catch-up")
    });
    lab.wait_line("a later slot", |line| line.is("start", "tick") && line.slot > caught_up.slot);
    nodes.iter_mut().for_each(tests::Node::stop);

    let missed = grid(1000, down, up);
    let starts: Vec<i64> = lab.attempts().iter().map(Attempt::slot).filter(|slot| missed.contains(slot)).collect();
    assert!(missed.len() >= 4 && starts.len() <= 1, "of {missed:?} it ran {starts:?}");
    assert!(caught_up.slot >= missed.last().copied(), "{caught_up:?}");
    no_attempt_twice(&lab.attempts());
}

pub(crate) fn a_new_job_does_not_run_for_slots_before_it_was_known(lab: &Lab) {
    // Its last slot was a second ago.
    let (jobs, _) = hourly("new", -1000, "none", "catch_up = \"30m\"");
    let mut nodes = lab.start_all(["a", "b"], &jobs, &NodeOptions::default());
    lab.wait_until_ms(wall_ms() + 1500);
    nodes.iter_mut().for_each(tests::Node::stop);
    assert!(lab.attempts().is_empty());
}
