//! Everything that `bench timer` compares, each run in a process of its own.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anarchon::{Context, Dialect, MemoryBackend, Overlap, Schedule, Scheduler};
use anarchon_schedule::{Cron, zone};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use crate::Fallible;
use crate::options::Options;
use crate::recorder::Recorder;
use crate::report::number;
use crate::usage::{own_cpu, own_memory, wall_us};

pub(crate) const PEER: &str = "tokio-cron-scheduler";

/// Who fires jobs that are due together; the first is what the others are compared with.
#[cfg(feature = "peers")]
pub(crate) const DUE: &[&str] = &["heap", "anarchon", PEER];
#[cfg(not(feature = "peers"))]
pub(crate) const DUE: &[&str] = &["heap", "anarchon"];

/// Who holds many crons.
pub(crate) const CRONS: &[&str] = DUE;

/// Jobs added each after the one before, to see what that takes.
const ALONE: usize = 2000;

/// The hidden command.
pub(crate) async fn run(options: &Options) -> Fallible<()> {
    let jobs: usize = options.number("jobs", 1)?;
    let figures = if options.flag("idle") {
        let idle = Duration::from_secs(options.number("idle", 1)?);
        match options.text("name", "") {
            "heap" => crons(&Heap::default(), jobs, idle).await?,
            "anarchon" => crons(&Anarchon::start().await?, jobs, idle).await?,
            #[cfg(feature = "peers")]
            PEER => crons(&peer::Peer::start().await?, jobs, idle).await?,
            other => return Err(format!("no contender `{other}`").into()),
        }
    } else {
        let recorder = Recorder::new(jobs, options.number("seconds", 1)?);
        match options.text("name", "") {
            "heap" => due(&Heap::default(), jobs, recorder).await?,
            "anarchon" => due(&Anarchon::start().await?, jobs, recorder).await?,
            #[cfg(feature = "peers")]
            PEER => due(&peer::Peer::start().await?, jobs, recorder).await?,
            other => return Err(format!("no contender `{other}`").into()),
        }
    };
    println!("{figures}");
    Ok(())
}

/// One that runs jobs.
trait Contender {
    /// How many jobs are added at once.
    const AT_ONCE: usize = 1000;
    /// Adds a job that is due each second and tells the recorder.
    async fn each_second(&self, job: usize, recorder: Arc<Recorder>) -> Fallible<()>;
    /// Adds an hourly job that does nothing.
    async fn hourly(&self, job: usize, minute: i64) -> Fallible<()>;
    /// Begins, where that is a step of its own.
    async fn begin(&self) -> Fallible<()> {
        Ok(())
    }
}

async fn due(contender: &impl Contender, jobs: usize, recorder: Arc<Recorder>) -> Fallible<Value> {
    add_all(contender, 0..jobs, |job| contender.each_second(job, Arc::clone(&recorder))).await?;
    contender.begin().await?;
    recorder.begin();
    let cpu = own_cpu();
    recorder.ended().await;
    let cpu = own_cpu() - cpu;
    let mut figures = recorder.figures();
    let fired = figures["fired"].as_f64().unwrap_or(f64::NAN);
    figures["cpu_us_per_run"] = number(cpu.as_secs_f64() * 1e6 / fired);
    Ok(figures)
}

async fn crons(contender: &impl Contender, jobs: usize, idle: Duration) -> Fallible<Value> {
    // Half an hour away, so that none is due while this runs.
    let minute = (wall_us() / 60_000_000 + 30) % 60;
    let memory = own_memory()?;
    let begun = Instant::now();
    let alone = ALONE.min(jobs);
    for job in 0..alone {
        contender.hourly(job, minute).await?;
    }
    let alone_us = begun.elapsed().as_secs_f64() * 1e6 / alone as f64;
    let begun = Instant::now();
    add_all(contender, alone..jobs, |job| contender.hourly(job, minute)).await?;
    let add_us = begun.elapsed().as_secs_f64() * 1e6 / (jobs - alone) as f64;
    contender.begin().await?;
    // What was begun by adding is let end.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let memory = own_memory()?.saturating_sub(memory);
    let cpu = own_cpu();
    tokio::time::sleep(idle).await;
    let cpu = own_cpu() - cpu;
    Ok(json!({
        "add_us": number(add_us),
        "add_alone_us": number(alone_us),
        "bytes_per_job": number(memory as f64 / jobs as f64),
        "idle_cpu_ms": number(cpu.as_secs_f64() * 1e3),
    }))
}

async fn add_all<C: Contender, F: Future<Output = Fallible<()>>>(
    _: &C,
    jobs: std::ops::Range<usize>,
    add: impl FnMut(usize) -> F,
) -> Fallible<()> {
    let mut added = futures_util::stream::iter(jobs).map(add).buffer_unordered(C::AT_ONCE);
    while let Some(added) = added.next().await {
        added?;
    }
    Ok(())
}

/// The scheduler that this library is, on the store that takes no time.
struct Anarchon(Scheduler<MemoryBackend>);

impl Anarchon {
    async fn start() -> Fallible<Self> {
        Ok(Self(Scheduler::builder(MemoryBackend::new()).start().await?))
    }
}

impl Contender for Anarchon {
    async fn each_second(&self, job: usize, recorder: Arc<Recorder>) -> Fallible<()> {
        let handler = move |context: Context| {
            recorder.started(job, context.slot_ms());
            async {}
        };
        let job = self.0.every(format!("job-{job}"), "1s", handler);
        Ok(job.overlap(Overlap::Allow).jitter("0s").add().await?)
    }

    async fn hourly(&self, job: usize, minute: i64) -> Fallible<()> {
        Ok(self.0.cron(format!("job-{job}"), format!("{minute} * * * *"), || async {}).add().await?)
    }
}

type HeapHandler = Box<dyn Fn(i64) -> BoxFuture<'static, ()> + Send>;

/// The least that a timer of many jobs can do: one task, one heap, and a task for each job that is due.
#[derive(Default)]
struct Heap(std::sync::Mutex<Vec<(Schedule, HeapHandler)>>);

impl Heap {
    fn add(&self, schedule: Schedule, handler: HeapHandler) -> Fallible<()> {
        self.0.lock().map_err(|_| "a job panicked")?.push((schedule, handler));
        Ok(())
    }
}

impl Contender for Heap {
    async fn each_second(&self, job: usize, recorder: Arc<Recorder>) -> Fallible<()> {
        let every = anarchon_schedule::Every::new(Duration::from_secs(1), Duration::ZERO)?;
        let handler = move |slot| -> BoxFuture<'static, ()> {
            let recorder = Arc::clone(&recorder);
            Box::pin(async move { recorder.started(job, slot) })
        };
        self.add(every.into(), Box::new(handler))
    }

    async fn hourly(&self, _: usize, minute: i64) -> Fallible<()> {
        let cron = Cron::parse(&format!("{minute} * * * *"), Dialect::Unix, zone::Tz::UTC)?;
        self.add(cron.into(), Box::new(|_| Box::pin(async {})))
    }

    async fn begin(&self) -> Fallible<()> {
        let jobs = std::mem::take(&mut *self.0.lock().map_err(|_| "a job panicked")?);
        tokio::spawn(async move {
            let now = wall_us() / 1000;
            let next = jobs.iter().enumerate().filter_map(|(job, (schedule, _))| Some((schedule.next(now)?, job)));
            let mut heap: BinaryHeap<Reverse<(i64, usize)>> = next.map(Reverse).collect();
            while let Some(Reverse((slot, _))) = heap.peek() {
                let wait = slot.saturating_mul(1000).saturating_sub(wall_us());
                if let Ok(wait @ 1..) = u64::try_from(wait) {
                    tokio::time::sleep(Duration::from_micros(wait)).await;
                    continue;
                }
                let Some(Reverse((slot, job))) = heap.pop() else { break };
                let (schedule, handler) = &jobs[job];
                tokio::spawn(handler(slot));
                if let Some(next) = schedule.next(slot) {
                    heap.push(Reverse((next, job)));
                }
            }
        });
        Ok(())
    }
}

#[cfg(feature = "peers")]
mod peer {
    use std::sync::Arc;

    use tokio_cron_scheduler::{Job, JobScheduler};

    use super::Contender;
    use crate::Fallible;
    use crate::recorder::Recorder;
    use crate::usage::wall_us;

    /// The crate that most programs use for timers in one process.
    pub(super) struct Peer(JobScheduler);

    impl Peer {
        pub(super) async fn start() -> Fallible<Self> {
            Ok(Self(JobScheduler::new().await?))
        }
    }

    impl Contender for Peer {
        /// It refuses jobs that are added while others are.
        const AT_ONCE: usize = 1;

        async fn each_second(&self, job: usize, recorder: Arc<Recorder>) -> Fallible<()> {
            let job = Job::new_async("* * * * * *", move |_, _| {
                let recorder = Arc::clone(&recorder);
                // It does not say for which second a job runs: the last one, as long as it is not later than that.
                let slot = wall_us().div_euclid(1_000_000) * 1000;
                Box::pin(async move { recorder.started(job, slot) })
            })?;
            self.0.add(job).await?;
            Ok(())
        }

        async fn hourly(&self, _: usize, minute: i64) -> Fallible<()> {
            self.0.add(Job::new_async(format!("0 {minute} * * * *"), |_, _| Box::pin(async {}))?).await?;
            Ok(())
        }

        async fn begin(&self) -> Fallible<()> {
            self.0.start().await?;
            Ok(())
        }
    }
}
