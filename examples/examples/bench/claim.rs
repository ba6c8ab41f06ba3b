//! `bench claim`: single calls of a store, beside the least that the bare store can do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anarchon::backend::Backend as _;
use anarchon::run::{Beat, Ending, Finish, RunClaim, RunKey};
use anarchon::{AnyBackend, InstanceId, JobName, LeaseBackend as _, Slot, Token};
use serde_json::{Value, json};

use crate::Fallible;
use crate::floors::{Floor, Op};
use crate::options::Options;
use crate::report::{Table, number, percentile, ratio};
use crate::usage::{own_cpu, wall_us};

/// Things in one call about many.
pub(crate) const MANY: usize = 100;

/// What calls of one kind took.
#[derive(Default)]
pub(crate) struct Measured {
    /// Of each call, in µs.
    took: Vec<f64>,
    wall: Duration,
    cpu: Duration,
    /// How many things one call is about.
    things: usize,
}

impl Measured {
    fn p50(&self) -> Option<f64> {
        let mut took = self.took.clone();
        took.sort_by(f64::total_cmp);
        Some(percentile(&took, 0.5)).filter(|p50| p50.is_finite())
    }

    fn per_second(&self) -> Option<f64> {
        let things = (self.took.len() * self.things) as f64;
        Some(things / self.wall.as_secs_f64()).filter(|rate| rate.is_finite() && *rate > 0.0)
    }

    fn cpu_us(&self) -> Option<f64> {
        let things = (self.took.len() * self.things) as f64;
        Some(self.cpu.as_secs_f64() * 1e6 / things).filter(|cpu| cpu.is_finite())
    }

    fn cells(&self) -> [Value; 4] {
        let mut took = self.took.clone();
        took.sort_by(f64::total_cmp);
        let some = |value: Option<f64>| value.map_or(Value::Null, number);
        [some(self.p50()), number(percentile(&took, 0.99)), some(self.per_second()), some(self.cpu_us())]
    }

    /// Times one phase: `calls` by `tasks` tasks, each of which makes every `tasks`-th call.
    pub(crate) async fn phase<F>(
        &mut self,
        tasks: usize,
        calls: usize,
        things: usize,
        call: impl Fn(usize) -> F + Clone + Send + 'static,
    ) -> Fallible<()>
    where
        F: Future<Output = Fallible<()>> + Send + 'static,
    {
        self.things = things;
        let (begun, cpu) = (Instant::now(), own_cpu());
        let mut going = tokio::task::JoinSet::new();
        for task in 0..tasks.min(calls) {
            let call = call.clone();
            going.spawn(async move {
                let mut took = Vec::new();
                for index in (task..calls).step_by(tasks) {
                    let begun = Instant::now();
                    call(index).await?;
                    took.push(begun.elapsed().as_secs_f64() * 1e6);
                }
                Fallible::Ok(took)
            });
        }
        while let Some(took) = going.join_next().await {
            self.took.extend(took??);
        }
        self.wall += begun.elapsed();
        self.cpu += own_cpu().saturating_sub(cpu);
        Ok(())
    }
}

pub(crate) async fn run(options: &Options) -> Fallible<()> {
    let url = options.text("store", "memory:");
    let jobs: usize = options.number("jobs", 200)?;
    if jobs < MANY || !jobs.is_multiple_of(MANY) {
        return Err(format!("`--jobs` must be a multiple of {MANY}").into());
    }
    let time = Duration::from_secs(options.number("seconds", 3)?);
    let scheme = url.split(':').next().unwrap_or_default();
    let mut table = Table::new(
        "claim",
        format!("calls of {scheme}, {jobs} jobs, {} s for each number of tasks", time.as_secs()),
        &["call", "tasks", "p50_us", "p99_us", "per_s", "cpu_us", "of", "p50_ratio", "cpu_ratio", "per_s_ratio"],
    );
    for tasks in options.numbers("tasks", "1,32")? {
        let floors = Floor::open(url).await?;
        let mut bare = Vec::new();
        for op in Op::ALL {
            if let Some(measured) = floors.measure(*op, tasks, time / 3).await? {
                let cells = measured.cells();
                table.row([json!(op.name(scheme)), json!(tasks)].into_iter().chain(cells));
                bare.push((*op, measured));
            }
        }
        let calls = Calls::measure(url, jobs, tasks, time).await?;
        for (name, measured, beside) in [
            ("claim", &calls.claim, &[Op::One, Op::Transaction][..]),
            ("claim, lost", &calls.lost, &[Op::One]),
            ("claim_many(100)", &calls.claim_many, &[Op::Many, Op::TransactionOfMany]),
            ("claim_many(100), lost", &calls.lost_many, &[Op::Many]),
            ("heartbeat", &calls.heartbeat, &[Op::One]),
            ("heartbeat_many(100)", &calls.heartbeat_many, &[Op::Many]),
            ("finish", &calls.finish, &[Op::One]),
            ("finish_many(100)", &calls.finish_many, &[Op::Many]),
        ] {
            let bare: Vec<&(Op, Measured)> = bare.iter().filter(|(op, _)| beside.contains(op)).collect();
            if bare.is_empty() {
                table.row([json!(name), json!(tasks)].into_iter().chain(measured.cells()));
            }
            for (op, floor) in bare {
                table.row([json!(name), json!(tasks)].into_iter().chain(measured.cells()).chain([
                    json!(op.name(scheme)),
                    ratio(measured.p50(), floor.p50()),
                    ratio(measured.cpu_us(), floor.cpu_us()),
                    ratio(measured.per_second(), floor.per_second()),
                ]));
            }
        }
    }
    table.note("per_s and cpu_us count claims, not calls; cpu_us is this process's");
    table.note("goal on PostgreSQL: claim p50 <= the 5 statements', remarkable 1.5 x one; claim_many p50_ratio <= 2");
    table.note("goal on SQLite: claim p50 <= the 4-call transaction's, remarkable 1.3 x one call; claim_many cpu_ratio <= 2, remarkable 1.5");
    table.note("goal at 32 tasks: per_s_ratio of claim to one call >= 0.5, remarkable 0.8");
    table.print(options.flag("json"));
    Ok(())
}

/// What the calls of a store took.
#[derive(Default)]
struct Calls {
    claim: Measured,
    lost: Measured,
    claim_many: Measured,
    lost_many: Measured,
    heartbeat: Measured,
    heartbeat_many: Measured,
    finish: Measured,
    finish_many: Measured,
}

impl Calls {
    /// Round after round, every job is claimed, renewed and finished, one by one and in batches in turn: as when each
    /// slot's run is over before the next one is due.
    async fn measure(url: &str, jobs: usize, tasks: usize, time: Duration) -> Fallible<Self> {
        let store = Arc::new(AnyBackend::connect(url)?);
        store.connect().await?;
        let run = std::process::id();
        let names = (0..jobs).map(|job| JobName::new(format!("bench-{run}-{tasks}-{job:04}")));
        let names: Vec<JobName> = names.collect::<Result<_, _>>()?;
        let instance = InstanceId::new(format!("bench-{run}"))?;
        let mut calls = Self::default();
        // Old slots, so that there are enough of them.
        let first = wall_us() / 1000 - 3_600_000;
        let begun = Instant::now();
        let mut round = 0;
        while begun.elapsed() < time {
            let slot = Slot::from_ms(first + round);
            let claims: Arc<[RunClaim]> = names
                .iter()
                .map(|name| {
                    let mut claim = RunClaim::new(name.clone(), slot, Token::random(), instance.clone());
                    claim.identity = Arc::from("bench");
                    claim.floor = 0;
                    claim.limit = Duration::from_secs(7200);
                    claim
                })
                .collect();
            calls.round(&store, &claims, tasks, round % 2 == 1, &instance).await?;
            round += 1;
        }
        store.close().await;
        Ok(calls)
    }

    async fn round(
        &mut self,
        store: &Arc<AnyBackend>,
        claims: &Arc<[RunClaim]>,
        tasks: usize,
        many: bool,
        instance: &InstanceId,
    ) -> Fallible<()> {
        let batches = claims.len() / MANY;
        let key = |claim: &RunClaim| RunKey::scheduled(claim.job.clone(), claim.slot);
        let beats: Arc<[Beat]> = claims.iter().map(|c| Beat::new(key(c), c.token, c.lease)).collect();
        let finish = |c: &RunClaim| Finish::new(key(c), c.token, Ending::Done, instance.clone(), wall_us() / 1000);
        let finishes: Arc<[Finish]> = claims.iter().map(finish).collect();
        // Once by those who win, and once by others, who lose.
        let mut lost: Vec<RunClaim> = claims.to_vec();
        lost.iter_mut().for_each(|claim| claim.token = Token::random());
        let lost: Arc<[RunClaim]> = lost.into();
        for (what, wins) in [(claims, true), (&lost, false)] {
            let (on, what) = (Arc::clone(store), Arc::clone(what));
            if many {
                let measured = if wins { &mut self.claim_many } else { &mut self.lost_many };
                let call = move |batch: usize| {
                    let (on, what) = (Arc::clone(&on), Arc::clone(&what));
                    async move { all_well(on.claim_many(&what[batch * MANY..][..MANY]).await) }
                };
                measured.phase(tasks, batches, MANY, call).await?;
            } else {
                let measured = if wins { &mut self.claim } else { &mut self.lost };
                let all = what.len();
                let call = move |index: usize| {
                    let (on, what) = (Arc::clone(&on), Arc::clone(&what));
                    async move { all_well(vec![on.claim(&what[index]).await]) }
                };
                measured.phase(tasks, all, 1, call).await?;
            }
        }
        if !many {
            let (on, what) = (Arc::clone(store), Arc::clone(&beats));
            let call = move |index: usize| {
                let (on, what) = (Arc::clone(&on), Arc::clone(&what));
                async move { all_well(vec![on.heartbeat(&what[index]).await]) }
            };
            self.heartbeat.phase(tasks, batches * MANY, 1, call).await?;
        }
        let (on, what) = (Arc::clone(store), beats);
        let call = move |batch: usize| {
            let (on, what) = (Arc::clone(&on), Arc::clone(&what));
            async move { all_well(on.heartbeat_many(&what[batch * MANY..][..MANY]).await) }
        };
        self.heartbeat_many.phase(tasks, batches, MANY, call).await?;
        let (on, what) = (Arc::clone(store), finishes);
        if many {
            let call = move |batch: usize| {
                let (on, what) = (Arc::clone(&on), Arc::clone(&what));
                async move { all_well(on.finish_many(&what[batch * MANY..][..MANY]).await) }
            };
            self.finish_many.phase(tasks, batches, MANY, call).await
        } else {
            let call = move |index: usize| {
                let (on, what) = (Arc::clone(&on), Arc::clone(&what));
                async move { all_well(vec![on.finish(&what[index]).await]) }
            };
            self.finish.phase(tasks, batches * MANY, 1, call).await
        }
    }
}

fn all_well<T>(answers: Vec<Result<T, anarchon::BackendError>>) -> Fallible<()> {
    for answer in answers {
        answer?;
    }
    Ok(())
}
