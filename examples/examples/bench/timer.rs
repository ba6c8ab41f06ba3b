//! `bench timer`: many jobs in one process, without a store to wait for.

use std::time::Duration;

use serde_json::{Value, json};

use crate::options::Options;
use crate::report::{Table, median, number, ratio};
use crate::{Fallible, child, contenders};

/// What a contender takes to start and to register, at most.
const SLACK: Duration = Duration::from_secs(120);

pub(crate) async fn run(options: &Options) -> Fallible<()> {
    let only = options.text("only", "");
    if !matches!(only, "" | "due" | "crons") {
        return Err(format!("`--only {only}`: there are `due` and `crons`").into());
    }
    if only != "crons" {
        due_together(options).await?.print(options.flag("json"));
    }
    if only != "due" {
        hourly_crons(options).await?.print(options.flag("json"));
    }
    Ok(())
}

/// A key of several runs' figures, in the order of the runs.
fn all(runs: &[Value], key: &str) -> Vec<f64> {
    runs.iter().filter_map(|run| run[key].as_f64()).collect()
}

fn middle(runs: &[Value], key: &str) -> Value {
    median(all(runs, key)).map_or(Value::Null, number)
}

fn worst(runs: &[Value], key: &str) -> Value {
    json!(runs.iter().filter_map(|run| run[key].as_u64()).max())
}

async fn due_together(options: &Options) -> Fallible<Table> {
    let (jobs, seconds) = (options.number("jobs", 10_000_usize)?, options.number("seconds", 5_u64)?);
    let runs: usize = options.number("runs", 3)?;
    let mut figures: Vec<Vec<Value>> = contenders::DUE.iter().map(|_| Vec::new()).collect();
    for _ in 0..runs {
        for (contender, figures) in contenders::DUE.iter().zip(&mut figures) {
            let limit = SLACK + Duration::from_secs(seconds);
            let arguments =
                [("name", (*contender).to_owned()), ("jobs", jobs.to_string()), ("seconds", seconds.to_string())];
            figures.push(child::figures(&arguments, limit).await?);
        }
    }
    let mut table = Table::new(
        "timer_due",
        format!(
            "{jobs} jobs due at one second, for {seconds} seconds; medians of {runs} runs, the worst of lost and more"
        ),
        &["contender", "owed", "lost", "more", "p50_ms", "p99_ms", "max_ms", "p99_of_heap", "cpu_us_per_run"],
    );
    let heap = &figures[0];
    for (contender, runs) in contenders::DUE.iter().zip(&figures) {
        // Each run beside the heap's of the same round.
        let ratios = all(runs, "p99_ms").into_iter().zip(all(heap, "p99_ms")).map(|(ours, heap)| ours / heap);
        table.row([
            json!(contender),
            worst(runs, "owed"),
            worst(runs, "lost"),
            worst(runs, "more"),
            middle(runs, "p50_ms"),
            middle(runs, "p99_ms"),
            middle(runs, "max_ms"),
            median(ratios.collect()).map_or(Value::Null, number),
            middle(runs, "cpu_us_per_run"),
        ]);
    }
    table.note("goal: none lost, p99_of_heap <= 3; remarkable: <= 1.5");
    Ok(table)
}

async fn hourly_crons(options: &Options) -> Fallible<Table> {
    let (jobs, idle) = (options.number("crons", 100_000_usize)?, options.number("idle", 20_u64)?);
    let mut table = Table::new(
        "timer_crons",
        format!("{jobs} hourly crons, then {idle} s of doing nothing"),
        &[
            "contender",
            "add_us",
            "add_alone_us",
            "bytes_per_job",
            "idle_cpu_ms",
            "add_of_peer",
            "add_alone_of_peer",
            "bytes_of_peer",
            "idle_of_peer",
        ],
    );
    let mut figures = Vec::new();
    for contender in contenders::CRONS {
        let limit = SLACK + Duration::from_secs(idle);
        let arguments = [("name", (*contender).to_owned()), ("jobs", jobs.to_string()), ("idle", idle.to_string())];
        figures.push(child::figures(&arguments, limit).await?);
    }
    let peer = contenders::CRONS.iter().position(|name| *name == contenders::PEER).and_then(|at| figures.get(at));
    for (contender, figures) in contenders::CRONS.iter().zip(&figures) {
        let beside = |key: &str| ratio(figures[key].as_f64(), peer.and_then(|peer| peer[key].as_f64()));
        table.row([
            json!(contender),
            figures["add_us"].clone(),
            figures["add_alone_us"].clone(),
            figures["bytes_per_job"].clone(),
            figures["idle_cpu_ms"].clone(),
            beside("add_us"),
            beside("add_alone_us"),
            beside("bytes_per_job"),
            beside("idle_cpu_ms"),
        ]);
    }
    table.note("add: up to 1,000 at once (the peer refuses that: one by one); add_alone: each after the one before");
    table.note("goal beside the peer: add <= 0.2, idle <= 0.1, bytes <= 1; remarkable: 0.05, 0.02, 0.5");
    if peer.is_none() {
        table.note("the peer, tokio-cron-scheduler, takes part when built with --features peers");
    }
    Ok(table)
}
