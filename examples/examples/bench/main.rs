//! Measures what anarchon costs, always beside something to compare it with in the same run: absolute figures drift
//! with the machine and the hour, ratios hold.
//!
//! ```text
//! cargo run --release -p examples --example bench -- timer
//! cargo run --release -p examples --example bench -- claim --store sqlite:/tmp/bench.db
//! cargo run --release -p examples --example bench -- cluster --store sqlite:/tmp/bench.db --kill-at 10
//! ```
//!
//! `--help` has the options. Each table is followed by what its ratios mean; `--json` prints one object per row.

mod child;
mod claim;
mod cluster;
mod contenders;
mod counting;
mod floors;
mod instance;
mod options;
mod recorder;
mod report;
#[cfg(feature = "servers")]
mod servers;
mod timer;
mod usage;

use std::error::Error;
use std::process::ExitCode;

use options::Options;

/// Anything may go wrong in a benchmark, and then it ends.
type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

const HELP: &str = "\
What anarchon costs, beside something to compare it with. Build with --release.

bench timer      in one process, on the memory store; each contender in a process of its own
    --jobs 10000       jobs that fall due together, each second
    --seconds 5        for so many seconds
    --runs 3           so many times; the medians are shown
    --crons 100000     hourly jobs for the second table
    --idle 20          seconds of doing nothing there
    --only due|crons   one of the two tables
    (with the cargo feature `peers`, tokio-cron-scheduler takes part)

bench claim      single calls of a store, beside what the bare store takes
    --store memory:    its URL, as in sqlite:/tmp/bench.db; tables called bench_… are made in it
    --jobs 200         jobs that the claims are spread over
    --seconds 3        for each number of tasks
    --tasks 1,32       tasks at once

bench cluster    several processes and one store
    --store URL        not memory:, which no two processes can share
    --strategy NAME    on Redis and Valkey, without leases: stream-id, script or idmp
    --instances 3      processes
    --jobs 50          jobs; a list, as in 10,1000, is measured one after the other
    --every 1s         their interval
    --seconds 30       how long
    --jitter 0s        their jitter
    --overlap allow    or skip
    --work 0ms         how long a handler takes; with --kill-at 400ms
    --lease 15s        the lease
    --kill-at 10       kills an instance (kill -9) in the middle of its runs at this second, and waits for its runs
                       to be started again

everywhere
    --json             one JSON object a line instead of tables
    --help             this text
";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    let outcome = Options::parse(arguments).and_then(|options| run(&command, &options));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &str, options: &Options) -> Fallible<()> {
    if options.flag("help") || matches!(command, "" | "help" | "--help" | "-h") {
        print!("{HELP}");
        return Ok(());
    }
    let known: &[&str] = match command {
        "timer" => &["jobs", "seconds", "runs", "crons", "idle", "only"],
        "claim" => &["store", "jobs", "seconds", "tasks"],
        "cluster" => &[
            "store",
            "instances",
            "jobs",
            "every",
            "seconds",
            "jitter",
            "strategy",
            "overlap",
            "work",
            "lease",
            "kill-at",
        ],
        // Hidden: what this program runs as its own children.
        child::CONTENDER | child::INSTANCE => &[
            "name", "jobs", "seconds", "idle", "store", "every", "jitter", "strategy", "overlap", "work", "lease", "id",
        ],
        other => return Err(format!("there is no `{other}`; see bench --help").into()),
    };
    options.only(known)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        match command {
            "timer" => timer::run(options).await,
            "claim" => claim::run(options).await,
            "cluster" => cluster::run(options).await,
            child::CONTENDER => contenders::run(options).await,
            _ => instance::run(options).await,
        }
    });
    // A contender may have left tasks that never end.
    runtime.shutdown_background();
    outcome
}
