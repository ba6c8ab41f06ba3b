//! Real processes on a server that is killed and started again.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::lab::Lab;
use crate::log::{Line, wall_ms};
use crate::node::{Node, NodeOptions};
use crate::store::Store;

/// How long the last runs may take to start: a broker that comes back has all that waited for it to answer first.
const REST: Duration = Duration::from_secs(120);

/// Held by the one race that there is at a time: two at once would slow each other down.
static ONE: Mutex<()> = Mutex::new(());

/// How often each slot of each job was started.
fn starts(lines: &[Line]) -> HashMap<(String, i64), u32> {
    let mut starts = HashMap::new();
    for line in lines.iter().filter(|line| line.event == "start") {
        let run = (line.job.clone().expect("a start has a job"), line.slot.expect("a start has a slot"));
        *starts.entry(run).or_default() += 1;
    }
    starts
}

/// So many jobs, each due each second for thirty seconds, in three processes; in the middle the store's server is killed
/// and started again. Each slot is started once: one is claimed for a minute, so none is lost.
///
/// `more` are options of each job.
///
/// # Panics
/// When a slot is started twice or never, or one of the processes runs none.
pub fn three_processes_run_each_slot_once(store: Store, jobs: usize, more: &str, options: &NodeOptions) {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::on(store, tempfile::tempdir().expect("a directory"));
    let file = (0..jobs).fold(String::new(), |mut file, n| {
        let _ = writeln!(file, "[[job]]\nname = \"job-{n}\"\nevery = \"1s\"\nwork = \"none\"\n{more}");
        file
    });
    let mut nodes = lab.start_all(["a", "b", "c"], &file, &options.clone().set("--stop-grace", "1s"));
    let from = wall_ms();
    lab.wait_until_ms(from + 15_000);
    {
        let mut store = lab.store().borrow_mut();
        let server = store.server().expect("a server of its own");
        server.kill();
        server.start();
    }
    let owed = crate::check::grid(1000, from, from + 30_000);
    let since = Instant::now();
    let missing = || {
        let starts = starts(&lab.lines());
        let runs = (0..jobs).flat_map(|n| owed.iter().map(move |slot| (format!("job-{n}"), *slot)));
        runs.filter(|run| !starts.contains_key(run)).collect::<Vec<_>>()
    };
    lab.wait_until_ms(from + 30_000);
    while !missing().is_empty() {
        assert!(since.elapsed() < REST, "not started: {:?}", missing());
        std::thread::sleep(Duration::from_millis(500));
    }
    nodes.iter_mut().for_each(Node::stop);
    let lines = lab.lines();
    let twice: Vec<_> = starts(&lines).into_iter().filter(|(_, starts)| *starts > 1).collect();
    assert!(twice.is_empty(), "started twice: {twice:?}");
    for name in ["a", "b", "c"] {
        let share = lines.iter().filter(|line| line.event == "start" && line.instance == name).count();
        assert!(share > 0, "`{name}` ran none");
    }
}
