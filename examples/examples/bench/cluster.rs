//! `bench cluster`: several processes on one store, and what they make of the runs that are owed.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;
use tokio::sync::mpsc;

use crate::counting::KINDS;
use crate::options::Options;
use crate::report::{Table, number, percentile};
use crate::usage::wall_us;
use crate::{Fallible, child};

/// How long the instances may take to start.
const START: Duration = Duration::from_secs(60);
/// How long runs of the last slots may take.
const REST: Duration = Duration::from_secs(2);
/// A kill comes this long after a slot, when its handlers are at work.
const INTO_THE_SLOT: i64 = 150_000;

pub(crate) async fn run(options: &Options) -> Fallible<()> {
    let store = options.text("store", "");
    if store.is_empty() {
        return Err(
            "`--store` is missing: the URL of the store that the instances share, as in sqlite:/tmp/b.db".into()
        );
    }
    if store.starts_with("memory:") {
        return Err(
            "`memory:` is the memory of one process, and the instances of a cluster are several: every one would \
                    run every slot; take sqlite:/tmp/bench.db, say"
                .into(),
        );
    }
    let mut table = Table::new(
        "cluster",
        format!(
            "{} instances, each job every {}, for {} s on {}",
            options.text("instances", "3"),
            options.text("every", "1s"),
            options.text("seconds", "30"),
            store.split(':').next().unwrap_or_default()
        ),
        &[
            "jobs",
            "owed",
            "once",
            "more",
            "never",
            "again",
            "p50_ms",
            "p99_ms",
            "max_ms",
            "calls_per_run",
            "calls_per_s",
            "cpu_ms_per_run",
        ],
    );
    let mut kills = Table::new(
        "takeover",
        "one instance killed with -9 in the middle of its runs",
        &["jobs", "killed_in", "run_again", "after_kill_s", "last_s", "after_lease_ms", "last_ms", "too_early"],
    );
    let mut by_kind = Table::new("calls", "calls by what they are, of all instances", &{
        let mut columns = vec!["jobs"];
        columns.extend(KINDS);
        columns
    });
    let mut rates = Vec::new();
    for jobs in options.numbers("jobs", "50")? {
        let cluster = Cluster::new(options, jobs)?;
        let outcome = cluster.run().await?;
        outcome.rows(&cluster, &mut table, &mut kills, &mut by_kind, &mut rates);
    }
    table.note("more: slots that were run to the end twice; again: started again after their runner was killed");
    table.note("goal: all once; calls_per_run <= 0.5, remarkable 0.15; cpu_ms_per_run is that of the instances");
    if let ([first, ..], [.., last]) = (rates.as_slice(), rates.as_slice())
        && rates.len() > 1
    {
        let note = format!(
            "calls_per_s of the last row is {:.2} times that of the first; goal 3, remarkable 1.5",
            last / first
        );
        table.note(note);
    }
    kills.note(
        "after_lease: from the end of the lease, as if it had been won at the very slot; goal <= 1000 ms, none too early",
    );
    let as_json = options.flag("json");
    table.print(as_json);
    by_kind.print(as_json);
    if options.flag("kill-at") {
        kills.print(as_json);
    }
    Ok(())
}

/// What is to be measured.
struct Cluster {
    arguments: Vec<(&'static str, String)>,
    instances: usize,
    jobs: usize,
    every_ms: i64,
    seconds: u64,
    lease: Duration,
    kill_at: Option<u64>,
}

/// Something that an instance said.
struct Said {
    instance: usize,
    line: String,
}

/// One start of a handler.
#[derive(Clone, Copy)]
struct Start {
    instance: usize,
    at_us: i64,
    ended: bool,
}

/// What an instance has used at some time.
#[derive(Clone, Default)]
struct Used {
    at_us: i64,
    cpu_us: u64,
    calls: Vec<u64>,
}

#[derive(Default)]
struct Outcome {
    first_ms: i64,
    killed: Option<(usize, i64)>,
    starts: HashMap<(usize, i64), Vec<Start>>,
    used: Vec<Vec<Used>>,
}

impl Cluster {
    fn new(options: &Options, jobs: usize) -> Fallible<Self> {
        let kill_at = options.flag("kill-at").then(|| options.number("kill-at", 10)).transpose()?;
        let seconds = options.number("seconds", 30)?;
        if kill_at.is_some_and(|at| at >= seconds) {
            return Err("`--kill-at` must come before the end of `--seconds`".into());
        }
        let work = options.text("work", if kill_at.is_some() { "400ms" } else { "0s" });
        let arguments = vec![
            ("store", options.text("store", "").to_owned()),
            ("strategy", options.text("strategy", "").to_owned()),
            ("jobs", jobs.to_string()),
            ("every", options.text("every", "1s").to_owned()),
            ("jitter", options.text("jitter", "0s").to_owned()),
            ("overlap", options.text("overlap", "allow").to_owned()),
            ("work", work.to_owned()),
            ("lease", options.text("lease", "15s").to_owned()),
        ];
        let every_ms = i64::try_from(options.duration("every", "1s")?.as_millis())?;
        let instances = options.number("instances", 3)?;
        if instances == 0 || every_ms == 0 || seconds == 0 {
            return Err("`--instances`, `--every` and `--seconds` must be more than zero".into());
        }
        Ok(Self { arguments, instances, jobs, every_ms, seconds, lease: options.duration("lease", "15s")?, kill_at })
    }

    async fn run(&self) -> Fallible<Outcome> {
        let (tell, mut said) = mpsc::unbounded_channel();
        let mut children = Vec::new();
        for instance in 0..self.instances {
            let mut arguments = self.arguments.clone();
            arguments.push(("id", instance.to_string()));
            let mut child = child::start(child::INSTANCE, &arguments)?;
            listen(instance, &mut child, tell.clone())?;
            children.push(child);
        }
        drop(tell);
        let mut outcome = Outcome { used: vec![Vec::new(); self.instances], ..Outcome::default() };
        let mut ready = 0;
        let started = tokio::time::timeout(START, async {
            while ready < self.instances {
                let Some(Said { instance, line }) = said.recv().await else { break };
                ready += usize::from(line == "ready");
                outcome.take(instance, &line);
            }
        });
        if started.await.is_err() || ready < self.instances {
            return Err("not all instances have started; what they say stands above".into());
        }
        let now_ms = wall_us() / 1000;
        outcome.first_ms = (now_ms + 1500).div_euclid(self.every_ms) * self.every_ms + self.every_ms;
        self.watch(&mut outcome, &mut children, &mut said).await?;
        // The end of their input stops them.
        for child in &mut children {
            drop(child.stdin.take());
        }
        for child in &mut children {
            if tokio::time::timeout(Duration::from_secs(30), child.wait()).await.is_err() {
                child.start_kill()?;
            }
        }
        Ok(outcome)
    }

    /// The end of the time in which slots are owed, in ms since the epoch.
    fn end_ms(&self, first_ms: i64) -> i64 {
        first_ms + i64::try_from(self.seconds).unwrap_or(0) * 1000
    }

    async fn watch(
        &self,
        outcome: &mut Outcome,
        children: &mut [Child],
        said: &mut mpsc::UnboundedReceiver<Said>,
    ) -> Fallible<()> {
        let first_us = outcome.first_ms * 1000;
        let kill_us = self.kill_at.map(|at| {
            let slots = i64::try_from(at).unwrap_or(0) * 1000 / self.every_ms;
            first_us + slots * self.every_ms * 1000 + INTO_THE_SLOT
        });
        let rest = i64::try_from(REST.as_micros())?;
        let taken_over = kill_us.map_or(0, |at| at + i64::try_from(self.lease.as_micros()).unwrap_or(0) + 2 * rest);
        let end_us = (self.end_ms(outcome.first_ms) * 1000 + rest).max(taken_over);
        let mut kill = Box::pin(tokio::time::sleep(until(kill_us.unwrap_or(end_us))));
        let mut end = Box::pin(tokio::time::sleep(until(end_us)));
        let mut to_kill = kill_us.is_some();
        loop {
            tokio::select! {
                heard = said.recv() => match heard {
                    Some(Said { instance, line }) => outcome.take(instance, &line),
                    None => return Err("all instances have ended".into()),
                },
                () = &mut kill, if to_kill => {
                    to_kill = false;
                    let victim = outcome.busiest(self.instances);
                    kill_now(children.get_mut(victim)).await?;
                    outcome.killed = Some((victim, wall_us()));
                }
                () = &mut end => return Ok(()),
            }
        }
    }
}

fn until(at_us: i64) -> Duration {
    Duration::from_micros(u64::try_from(at_us - wall_us()).unwrap_or(0))
}

/// kill -9, which tokio's `kill` is on Unix.
async fn kill_now(child: Option<&mut Child>) -> Fallible<()> {
    if let Some(child) = child {
        child.kill().await?;
    }
    Ok(())
}

fn listen(instance: usize, child: &mut Child, tell: mpsc::UnboundedSender<Said>) -> Fallible<()> {
    let output = child.stdout.take().ok_or("an instance has no standard output")?;
    tokio::spawn(async move {
        let mut lines = BufReader::new(output).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let _ = tell.send(Said { instance, line });
        }
    });
    Ok(())
}

impl Outcome {
    fn take(&mut self, instance: usize, line: &str) {
        if let Some(figures) = line.strip_prefix("used ") {
            let Ok(figures) = serde_json::from_str::<Value>(figures) else { return };
            self.used[instance].push(Used {
                at_us: figures["at"].as_i64().unwrap_or(0),
                cpu_us: figures["cpu_us"].as_u64().unwrap_or(0),
                calls: KINDS.iter().map(|kind| figures["calls"][kind].as_u64().unwrap_or(0)).collect(),
            });
            return;
        }
        let mut words = line.split(' ');
        let word = words.next();
        let mut next = || words.next().and_then(|word| word.parse::<i64>().ok());
        let (Some(job), Some(slot), Some(at_us)) = (next(), next(), next()) else { return };
        let starts = self.starts.entry((usize::try_from(job).unwrap_or(0), slot)).or_default();
        match word {
            Some("start") => starts.push(Start { instance, at_us, ended: false }),
            _ => {
                if let Some(start) = starts.iter_mut().rev().find(|start| start.instance == instance) {
                    start.ended = true;
                }
            }
        }
    }

    /// The instance with the most handlers at work.
    fn busiest(&self, instances: usize) -> usize {
        let at_work = |instance: usize| {
            self.starts.values().flatten().filter(|start| start.instance == instance && !start.ended).count()
        };
        (0..instances).max_by_key(|instance| at_work(*instance)).unwrap_or(0)
    }

    /// From the last sample before the first slot to the last of all.
    fn used(&self, instance: usize, first_ms: i64) -> Option<(&Used, &Used)> {
        let samples = self.used.get(instance)?;
        let begun = samples.iter().rfind(|used| used.at_us <= first_ms * 1000).or(samples.first())?;
        Some((begun, samples.last()?))
    }

    fn rows(&self, cluster: &Cluster, table: &mut Table, kills: &mut Table, by_kind: &mut Table, rates: &mut Vec<f64>) {
        let (mut once, mut more, mut never, mut again) = (0_u64, 0_u64, 0_u64, 0_u64);
        let (mut owed, mut late) = (0_u64, Vec::new());
        let none = Vec::new();
        for job in 0..cluster.jobs {
            let mut slot = self.first_ms;
            while slot < cluster.end_ms(self.first_ms) {
                let starts = self.starts.get(&(job, slot)).unwrap_or(&none);
                owed += 1;
                match starts.iter().filter(|start| start.ended).count() {
                    0 => never += 1,
                    1 => once += 1,
                    _ => more += 1,
                }
                again += u64::from(starts.len() > 1);
                late.extend(starts.first().map(|start| (start.at_us - slot * 1000) as f64 / 1000.0));
                slot += cluster.every_ms;
            }
        }
        late.sort_by(f64::total_cmp);
        let used: Vec<(&Used, &Used)> = (0..cluster.instances).filter_map(|i| self.used(i, self.first_ms)).collect();
        let calls: Vec<u64> = (0..KINDS.len())
            .map(|kind| used.iter().map(|(from, to)| to.calls[kind].saturating_sub(from.calls[kind])).sum())
            .collect();
        let cpu_us: u64 = used.iter().map(|(from, to)| to.cpu_us.saturating_sub(from.cpu_us)).sum();
        let over_us = used.iter().map(|(from, to)| to.at_us - from.at_us).max().unwrap_or(0);
        let runs = self.starts.iter().filter(|((_, slot), _)| *slot >= self.first_ms).count() as f64;
        let all_calls = calls.iter().sum::<u64>() as f64;
        let rate = all_calls / (over_us as f64 / 1e6);
        rates.push(rate);
        table.row([
            json!(cluster.jobs),
            json!(owed),
            json!(once),
            json!(more),
            json!(never),
            json!(again),
            number(percentile(&late, 0.5)),
            number(percentile(&late, 0.99)),
            number(percentile(&late, 1.0)),
            number(all_calls / runs),
            number(rate),
            number(cpu_us as f64 / 1000.0 / runs),
        ]);
        by_kind.row(std::iter::once(json!(cluster.jobs)).chain(calls.into_iter().map(Value::from)));
        if let Some(row) = self.takeovers(cluster) {
            kills.row(row);
        }
    }

    fn takeovers(&self, cluster: &Cluster) -> Option<Vec<Value>> {
        let (victim, killed_us) = self.killed?;
        let lease_us = i64::try_from(cluster.lease.as_micros()).ok()?;
        let (mut orphans, mut after_kill, mut after_lease) = (0, Vec::new(), Vec::new());
        for ((_, slot), starts) in &self.starts {
            let Some(lost) = starts.iter().find(|start| start.instance == victim && !start.ended) else { continue };
            orphans += 1;
            let next = starts.iter().find(|start| start.instance != victim && start.at_us > lost.at_us);
            if let Some(next) = next {
                after_kill.push((next.at_us - killed_us) as f64 / 1e6);
                after_lease.push((next.at_us - slot * 1000 - lease_us) as f64 / 1e3);
            }
        }
        after_kill.sort_by(f64::total_cmp);
        after_lease.sort_by(f64::total_cmp);
        let early = after_lease.iter().filter(|after| **after < 0.0).count();
        Some(vec![
            json!(cluster.jobs),
            json!(orphans),
            json!(after_kill.len()),
            number(percentile(&after_kill, 0.0)),
            number(percentile(&after_kill, 1.0)),
            number(percentile(&after_lease, 0.0)),
            number(percentile(&after_lease, 1.0)),
            json!(early),
        ])
    }
}
