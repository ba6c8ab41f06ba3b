//! Jobs that run once.

use anarchon::AttemptStatus;
use tests::check::no_attempt_twice;
use tests::{Lab, NodeOptions, wall_ms};

use super::in_good_time;

pub(crate) fn a_job_that_runs_once_runs_once_in_three_processes_and_not_again_after_a_restart(lab: &Lab) {
    let slot = (wall_ms() / 1000 + 9) * 1000;
    let time = anarchon::Slot::from_ms(slot);
    let jobs = format!("[[job]]\nname = \"new-year\"\nat = \"{time}\"\nwork = \"sleep 300ms\"\n");
    let options = NodeOptions::default();
    let mut nodes = lab.start_all(["a", "b", "c"], &jobs, &options);
    in_good_time(slot);
    let start = lab.wait_start("new-year", 1);
    assert_eq!(start.slot, Some(slot));
    lab.wait_line("its end", |line| line.is_of("finished", &start));
    nodes.iter_mut().for_each(tests::Node::stop);

    let mut again = lab.start_all(["d", "e"], &jobs, &options);
    lab.wait_until_ms(wall_ms() + 1500);
    again.iter_mut().for_each(tests::Node::stop);
    let attempts = lab.attempts();
    no_attempt_twice(&attempts);
    assert_eq!(attempts.len(), 1, "{attempts:?}");
    let history = lab.client().attempts("new-year", slot);
    assert_eq!(history.iter().map(|a| a.status).collect::<Vec<_>>(), [Some(AttemptStatus::Done)]);
}
