//! Real processes on one broker.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use tests::servers::RabbitMqVersion;
use tests::{Lab, Line, NodeOptions, Store, wall_ms};

const JOBS: usize = 100;

/// How often each slot of each job was started.
fn starts(lines: &[Line]) -> HashMap<(String, i64), u32> {
    let mut starts = HashMap::new();
    for line in lines.iter().filter(|line| line.event == "start") {
        let run = (line.job.clone().expect("a start has a job"), line.slot.expect("a start has a slot"));
        *starts.entry(run).or_default() += 1;
    }
    starts
}

/// A hundred jobs, each due each second for thirty seconds, in three processes.
fn three_processes_run_each_slot_once(version: RabbitMqVersion) {
    let Some(store) = Store::own_rabbitmq(version) else { return };
    let lab = Lab::on(store, tempfile::tempdir().expect("a directory"));
    let jobs = (0..JOBS).fold(String::new(), |mut jobs, n| {
        let _ = writeln!(jobs, "[[job]]\nname = \"job-{n}\"\nevery = \"1s\"\nwork = \"none\"");
        jobs
    });
    let mut nodes = lab.start_all(["a", "b", "c"], &jobs, &NodeOptions::bare().set("--stop-grace", "1s"));
    let from = wall_ms();
    lab.wait_until_ms(from + 15_000);
    {
        let mut store = lab.store().borrow_mut();
        let server = store.server().expect("a server of its own");
        server.kill();
        server.start();
    }
    let owed = tests::check::grid(1000, from, from + 30_000);
    let since = Instant::now();
    let missing = || {
        let starts = starts(&lab.lines());
        let runs = (0..JOBS).flat_map(|n| owed.iter().map(move |slot| (format!("job-{n}"), *slot)));
        runs.filter(|run| !starts.contains_key(run)).collect::<Vec<_>>()
    };
    // A slot is claimed for a minute, so none is lost.
    while !missing().is_empty() {
        assert!(since.elapsed() < Duration::from_secs(120), "{version:?}: not started: {:?}", missing());
        std::thread::sleep(Duration::from_millis(500));
    }
    nodes.iter_mut().for_each(tests::Node::stop);
    let lines = lab.lines();
    let twice: Vec<_> = starts(&lines).into_iter().filter(|(_, starts)| *starts > 1).collect();
    assert!(twice.is_empty(), "{version:?}: started twice: {twice:?}");
    let missed: Vec<_> = lines.iter().filter(|line| line.event == "missed").collect();
    eprintln!("{version:?}: {} starts, {} missed", starts(&lines).len(), missed.len());
    for name in ["a", "b", "c"] {
        let share = lines.iter().filter(|line| line.event == "start" && line.instance == name).count();
        assert!(share > JOBS, "{version:?}: `{name}` ran only {share}");
    }
}

#[test]
fn on_rabbitmq_3_three_processes_run_each_slot_once_though_the_broker_is_killed() {
    three_processes_run_each_slot_once(RabbitMqVersion::V3);
}

#[test]
fn on_rabbitmq_4_three_processes_run_each_slot_once_though_the_broker_is_killed() {
    three_processes_run_each_slot_once(RabbitMqVersion::V4);
}
