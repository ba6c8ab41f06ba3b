//! The plain case: nothing goes wrong.

use std::collections::BTreeSet;

use anarchon::AttemptStatus;
use tests::check::{each_once, grid, no_attempt_twice};
use tests::{Lab, Line, NodeOptions, wall_ms};

use super::every_second;

pub(crate) fn three_processes_run_each_of_thirty_slots_once(lab: &Lab) {
    let jobs = every_second("tick", "sleep 100ms", "overlap = \"allow\"");
    let mut nodes = lab.start_all(["a", "b", "c"], &jobs, &NodeOptions::default());
    let from = wall_ms();
    let owed = grid(1000, from, from + 30_000);
    lab.wait_each("end", "tick", &owed);
    nodes.iter_mut().for_each(tests::Node::stop);

    let attempts = lab.attempts();
    each_once(&attempts, "tick", &owed);
    no_attempt_twice(&attempts);
    let winners: BTreeSet<&str> = attempts.iter().map(|attempt| attempt.start.instance.as_str()).collect();
    assert!(winners.len() > 1, "one instance won every slot: {winners:?}");

    // What the processes say is what the store says.
    let client = lab.client();
    for slot in owed {
        let recorded = client.attempts("tick", slot);
        let statuses: Vec<_> = recorded.iter().map(|attempt| attempt.status).collect();
        assert_eq!(statuses, [Some(AttemptStatus::Done)], "{recorded:?}");
        let started = attempts.iter().find(|attempt| attempt.slot() == slot).map(|attempt| &attempt.start);
        assert_eq!(started.map(|start| start.instance.as_str()), Some(recorded[0].instance.as_str()));
        assert_eq!(started.map(|start| start.fence), Some(recorded[0].fence));
    }
}

pub(crate) fn a_cron_line_with_seconds_and_a_zone_runs_on_all_processes_as_on_one(lab: &Lab) {
    let jobs = "[[job]]\nname = \"even\"\ncron = \"*/2 * * * * *\"\ntimezone = \"Europe/Paris\"\nwork = \"none\"\noverlap = \"allow\"\n";
    let nodes = lab.start_all(["a", "b"], jobs, &NodeOptions::default());
    let from = wall_ms();
    let owed = grid(2000, from, from + 5000);
    lab.wait_each("start", "even", &owed);
    drop(nodes);
    each_once(&lab.attempts(), "even", &owed);
}

#[test]
fn a_claim_only_store_runs_slots_without_fences() {
    let directory = tempfile::tempdir().expect("a directory");
    let lab = Lab::on(tests::Store::new("memory-claims:", None), directory);
    let options = NodeOptions::bare().set("--stop-grace", "1s");
    let mut node = lab.start("a", &every_second("tick", "none", ""), &options);
    let second: Line =
        lab.wait_for("a second start", |lines| lines.iter().filter(|line| line.is("start", "tick")).nth(1).cloned());
    assert_eq!(second.fence, None);
    assert_eq!(second.reason.as_deref(), Some("scheduled"));
    node.stop();
}
