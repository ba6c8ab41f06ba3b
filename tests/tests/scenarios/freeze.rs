//! Processes are frozen for longer than their lease, as virtual machines are, and wake up.

use anarchon::AttemptStatus;
use tests::check::{never_two_at_once, no_attempt_twice};
use tests::{Lab, NodeOptions};

use super::every_second;

pub(crate) fn a_runner_that_was_frozen_past_its_lease_is_cancelled_when_it_wakes(lab: &Lab) {
    let options = NodeOptions::default();
    let mut frozen = lab.start("a", &every_second("long", "sleep 60s", ""), &options);
    let first = lab.wait_start("long", 1);
    let mut others = lab.start_all(["b", "c"], &every_second("long", "sleep 1s", ""), &options);
    lab.freeze(&frozen);
    let second = lab.wait_start("long", 2);
    assert_eq!(second.slot, first.slot);
    assert_eq!(second.reason.as_deref(), Some("takeover"));
    frozen.thaw();

    let cancelled = lab.wait_line("its cancellation", |line| line.is_of("cancelled", &first));
    assert_eq!(cancelled.instance, "a");
    // It takes no further step once the time to be dropped has passed, so it may not even be told.
    assert!(matches!(cancelled.how.as_deref(), Some("lease lost" | "dropped")), "{:?}", cancelled.how);
    lab.wait_line("it knows that its lease is lost", |line| line.is_of("lost", &first));
    lab.wait_line("the end of the second attempt", |line| line.is_of("finished", &second));
    // The one that woke up goes on with other slots, or with none; it does not mind having lost one.
    frozen.stop();
    others.iter_mut().for_each(tests::Node::stop);

    let lines = lab.lines();
    assert!(!lines.iter().any(|line| line.is_of("end", &first) || line.is_of("finished", &first)));
    never_two_at_once(&lab.attempts());
    let history = lab.client().attempts("long", first.slot.expect("a slot"));
    let statuses: Vec<Option<AttemptStatus>> = history.iter().map(|attempt| attempt.status).collect();
    assert_eq!(statuses, [Some(AttemptStatus::Lost), Some(AttemptStatus::Done)]);
}

pub(crate) fn what_a_frozen_runner_still_ends_when_it_wakes_is_refused(lab: &Lab) {
    let options = NodeOptions::default();
    // Its thread is blocked, so that it cannot see that it was cancelled: it comes to its end, too late.
    let mut frozen = lab.start("a", &every_second("long", "block 2s", ""), &options);
    let first = lab.wait_start("long", 1);
    lab.freeze(&frozen);
    let mut other = lab.start("b", &every_second("long", "sleep 1s", ""), &options);
    let second = lab.wait_start("long", 2);
    assert_eq!(second.slot, first.slot);
    lab.wait_line("the end of the second attempt", |line| line.is_of("finished", &second));
    frozen.thaw();
    lab.wait_line("its end", |line| line.is_of("end", &first));
    lab.wait_line("it knows that its lease is lost", |line| line.is_of("lost", &first));
    frozen.stop();
    other.stop();

    assert!(!lab.lines().iter().any(|line| line.is_of("finished", &first)));
    no_attempt_twice(&lab.attempts());
    let history = lab.client().attempts("long", first.slot.expect("a slot"));
    let statuses: Vec<Option<AttemptStatus>> = history.iter().map(|attempt| attempt.status).collect();
    assert_eq!(statuses, [Some(AttemptStatus::Lost), Some(AttemptStatus::Done)]);
}

pub(crate) fn slots_that_passed_while_a_process_was_frozen_are_run_by_the_others(lab: &Lab) {
    let jobs = every_second("tick", "none", "overlap = \"allow\"");
    let mut nodes = lab.start_all(["a", "b"], &jobs, &NodeOptions::default());
    // Between two slots, when nothing is under way.
    let from = (tests::wall_ms() / 1000 + 1) * 1000 + 500;
    lab.wait_until_ms(from);
    lab.freeze(&nodes[0]);
    lab.wait_until_ms(from + 4000);
    nodes[0].thaw();
    let owed = tests::check::grid(1000, from, from + 7000);
    lab.wait_each("start", "tick", &owed);
    nodes.iter_mut().for_each(tests::Node::stop);
    let attempts = lab.attempts();
    tests::check::each_once(&attempts, "tick", &owed);
    no_attempt_twice(&attempts);
}
