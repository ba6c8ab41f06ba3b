//! Jobs that take longer than their interval.

use std::collections::BTreeSet;

use anarchon::SkipReason;
use tests::check::{each_once, grid, never_two_at_once, no_attempt_twice, started_slots};
use tests::{Lab, NodeOptions, wall_ms};

use super::every_second;

pub(crate) fn a_job_longer_than_its_interval_never_runs_twice_at_once_and_its_skips_are_recorded(lab: &Lab) {
    let jobs = every_second("slow", "sleep 2500ms", "");
    let mut nodes = lab.start_all(["a", "b", "c"], &jobs, &NodeOptions::default());
    let from = wall_ms();
    let owed = grid(1000, from, from + 10_000);
    let last = owed.last().copied();
    lab.wait_line("the last slot is run or skipped", |line| {
        line.slot == last && (line.is("start", "slow") || line.is("skipped", "slow"))
    });
    nodes.iter_mut().for_each(tests::Node::stop);

    let attempts = lab.attempts();
    never_two_at_once(&attempts);
    let started: BTreeSet<i64> = started_slots(&attempts, "slow").into_iter().collect();
    let client = lab.client();
    let mut skipped = BTreeSet::new();
    for skip in client.skips("slow") {
        assert_eq!(skip.reason, SkipReason::Overlap);
        let slots = grid(1000, skip.first.ms() - 1, skip.last.ms());
        assert_eq!(skip.count, slots.len() as u64, "{skip:?}");
        for slot in slots {
            assert!(skipped.insert(slot), "recorded twice: {slot}");
        }
    }
    assert!(started.is_disjoint(&skipped), "both run and skipped: {started:?}, {skipped:?}");
    let undecided: Vec<&i64> = owed.iter().filter(|slot| !started.contains(slot) && !skipped.contains(slot)).collect();
    assert!(undecided.is_empty(), "neither run nor skipped: {undecided:?}");
    // Each run makes at least two slots skip.
    assert!(started.len() <= 6, "{started:?}");
    assert!(started.len() >= 2, "{started:?}");
}

pub(crate) fn a_job_that_may_overlap_runs_each_slot_once_and_beside_others(lab: &Lab) {
    let jobs = every_second("slow", "sleep 2500ms", "overlap = \"allow\"");
    let mut nodes = lab.start_all(["a", "b", "c"], &jobs, &NodeOptions::default());
    let from = wall_ms();
    let owed = grid(1000, from, from + 5000);
    lab.wait_each("end", "slow", &owed);
    nodes.iter_mut().for_each(|node| {
        node.kill();
    });

    let attempts = lab.attempts();
    each_once(&attempts, "slow", &owed);
    no_attempt_twice(&attempts);
    let beside = attempts.windows(2).any(|pair| pair[0].end_ns > Some(pair[1].start.mono_ns));
    assert!(beside, "no two at once, though they may be");
}
