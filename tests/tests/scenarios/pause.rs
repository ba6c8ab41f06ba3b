//! A job is paused and resumed.

use anarchon::SkipReason;
use tests::check::{grid, never_two_at_once};
use tests::{Lab, NodeOptions, wall_ms};

use super::every_second;

pub(crate) fn a_pause_from_one_instance_stops_the_job_on_all_until_it_is_resumed(lab: &Lab) {
    let jobs = format!("{}{}", every_second("tick", "none", ""), every_second("other", "none", ""));
    let mut nodes = lab.start_all(["a", "b", "c"], &jobs, &NodeOptions::default());
    lab.wait_start("tick", 1);
    let client = lab.client();
    client.pause("tick");
    let paused = wall_ms();
    lab.wait_until_ms(paused + 3500);
    let resuming = wall_ms();
    client.resume("tick");
    lab.wait_line("a start after the pause", |line| line.is("start", "tick") && line.slot > Some(resuming));
    nodes.iter_mut().for_each(tests::Node::stop);

    let attempts = lab.attempts();
    never_two_at_once(&attempts);
    // What was decided after the pause and before its end; the last slots may be decided after it on a busy machine.
    let during = grid(1000, paused, resuming - 1500);
    assert!(during.len() >= 2);
    for slot in &during {
        let other = attempts.iter().any(|a| a.job() == "other" && a.slot() == *slot);
        let tick = attempts.iter().any(|a| a.job() == "tick" && a.slot() == *slot);
        assert!(!tick, "it ran at {slot} though it was paused");
        assert!(other, "another job did not run at {slot}");
    }
    let skips: Vec<anarchon::SkipRecord> = client.skips("tick");
    let recorded = |slot: &i64| {
        skips.iter().any(|skip| skip.reason == SkipReason::Paused && (skip.first.ms()..=skip.last.ms()).contains(slot))
    };
    assert!(during.iter().all(recorded), "{skips:?}");
}
