//! Handlers that block their thread for several leases.

use tests::check::never_two_at_once;
use tests::{Lab, NodeOptions};

use super::every_second;

fn a_blocking_handler_keeps_its_lease(lab: &Lab, options: &NodeOptions) {
    let jobs = every_second("busy", "block 10s", "");
    let _blocked = lab.start("a", &jobs, options);
    let first = lab.wait_start("busy", 1);
    let _others = lab.start_all(["b", "c"], &jobs, &NodeOptions::default());
    let end = lab.wait_line("its end", |line| line.is_of("end", &first));
    assert_eq!((end.instance.as_str(), end.how.as_deref()), ("a", Some("done")));
    lab.wait_line("its end in the store", |line| line.is_of("finished", &first));
    lab.wait_line("a later run", |line| line.is("start", "busy") && line.slot > first.slot);

    let attempts = lab.attempts();
    never_two_at_once(&attempts);
    assert!(attempts.iter().all(|attempt| attempt.number() == 1), "it was taken over: {attempts:?}");
    assert!(!lab.lines().iter().any(|line| line.event == "lost"));
}

pub(crate) fn a_handler_that_blocks_the_only_worker_thread_keeps_its_lease(lab: &Lab) {
    a_blocking_handler_keeps_its_lease(lab, &NodeOptions::default().set("--worker-threads", "1"));
}

pub(crate) fn a_handler_that_blocks_a_single_threaded_runtime_keeps_its_lease(lab: &Lab) {
    a_blocking_handler_keeps_its_lease(lab, &NodeOptions::default().flag("--current-thread"));
}

pub(crate) fn an_instance_whose_runtime_is_blocked_leaves_other_slots_to_the_others(lab: &Lab) {
    let tick = every_second("tick", "none", "overlap = \"allow\"");
    // Not in the same moment: a slot that was won an instant before the thread was blocked would have to wait for it.
    let both = format!("{tick}{}", every_second("busy", "block 30s", "offset = \"500ms\""));
    let _blocked = lab.start("a", &both, &NodeOptions::default().flag("--current-thread"));
    let blocked = lab.wait_line("the blocking handler", |line| line.is("start", "busy"));
    let _other = lab.start("b", &tick, &NodeOptions::default());
    let from = tests::wall_ms();
    let owed = tests::check::grid(1000, from, from + 3000);
    lab.wait_each("start", "tick", &owed);
    assert!(
        !lab.lines().iter().any(|line| line.is_of("end", &blocked)),
        "it was blocked no longer: this machine is too busy for this test"
    );
    tests::check::each_once(&lab.attempts(), "tick", &owed);
}
