//! Deployments: processes are replaced, and two versions run beside each other.

use tests::check::{each_ended_once, each_once, grid, no_attempt_twice};
use tests::{Lab, NodeOptions, wall_ms};

use super::every_second;

pub(crate) fn a_rolling_deploy_loses_no_slot_and_runs_none_twice(lab: &Lab) {
    let options = NodeOptions::default();
    let jobs = every_second("tick", "sleep 50ms", "overlap = \"allow\"");
    let mut nodes = lab.start_all(["a1", "b1", "c1"], &jobs, &options);
    let from = wall_ms();
    for (old, name) in nodes.iter_mut().zip(["a2", "b2", "c2"]) {
        let mut new = lab.start(name, &jobs, &options);
        old.stop();
        std::mem::swap(old, &mut new);
        lab.wait_until_ms(wall_ms() + 1500);
    }
    let owed = grid(1000, from, wall_ms());
    lab.wait_each("end", "tick", &owed);
    nodes.iter_mut().for_each(tests::Node::stop);
    let attempts = lab.attempts();
    no_attempt_twice(&attempts);
    // A run that was in the middle when its process was stopped is started again: what counts is that it ended.
    each_ended_once(&attempts, "tick", &owed);
}

pub(crate) fn two_versions_with_different_intervals_run_the_slots_of_both_and_shared_ones_once(lab: &Lab) {
    let options = NodeOptions::default();
    let job =
        |every: &str| format!("[[job]]\nname = \"sync\"\nevery = \"{every}\"\nwork = \"none\"\noverlap = \"allow\"\n");
    let mut old = lab.start_all(["old1", "old2"], &job("1s"), &options);
    let mut new = lab.start_all(["new1", "new2"], &job("1500ms"), &options);
    let from = wall_ms();
    let mut owed = grid(1000, from, from + 8000);
    owed.extend(grid(1500, from, from + 8000));
    owed.sort_unstable();
    owed.dedup();
    lab.wait_each("start", "sync", &owed);
    old.iter_mut().chain(&mut new).for_each(tests::Node::stop);
    let attempts = lab.attempts();
    no_attempt_twice(&attempts);
    each_once(&attempts, "sync", &owed);
    let warned = lab.wait_line("a warning", |line| line.is("fingerprint-mismatch", "sync"));
    assert!(warned.instance.starts_with("new"), "{warned:?}");
}

pub(crate) fn an_instance_that_does_not_know_a_job_leaves_its_runs_alone(lab: &Lab) {
    let options = NodeOptions::default();
    let known = every_second("known", "none", "");
    let both = format!("{known}{}", every_second("new", "sleep 60s", ""));
    let mut new = lab.start("new", &both, &options);
    let first = lab.wait_start("new", 1);
    let _old = lab.start("old", &known, &options);
    new.kill();
    lab.wait_until_ms(wall_ms() + 3500);
    let starts = lab.attempts().into_iter().filter(|attempt| attempt.job() == "new").count();
    assert_eq!(starts, 1, "somebody took over a job that nobody knows");
    let _again = lab.start("newer", &both, &options);
    let second = lab.wait_start("new", 2);
    assert_eq!(second.slot, first.slot);
}
