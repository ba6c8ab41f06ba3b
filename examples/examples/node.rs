//! One instance of a service, with the jobs of a TOML file on any store: for trying things by hand, and for tests that
//! need real processes to kill, freeze and stop. See `node --help`.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anarchon::backend::AnyStrength;
use anarchon::run::RunKey;
use anarchon::{
    AnyBackend, AnyClaimBackend, ClaimOnlyMemoryBackend, Context, Data, Dialect, Event, JobBuilder, Overlap, Scheduler,
    SchedulerBuilder, State, kind,
};
use serde::{Deserialize, Serialize};

const HELP: &str = "\
One instance that runs the jobs of a file, and logs what happens as JSON lines.

usage: node --store URL --instance NAME --jobs FILE.toml --log FILE [options]

  --store URL         the store that all instances share, as in `sqlite:/tmp/try.db`;
                      `memory-claims:` is a claim-only store in this process
  --instance NAME     the name of this instance
  --jobs FILE         the jobs, as TOML; see below
  --log FILE          where lines are appended, each by one write

  --lease 3s          how long a silent runner is believed to be alive
  --heartbeat 1s      how often leases are renewed
  --watch 2s          how often a backup looks after the runs of others
  --stop-grace 5s     how long stopping handlers may take before they are dropped
  --worker-threads N  threads for handlers (default: one per processor)
  --current-thread    a single-threaded runtime, which handlers share with this program's own main task
  --with-stdin        die at once when standard input is closed, as happens when the parent dies
  --verbose           debug messages of the scheduler on standard error, not only warnings
  --help              this text

It prints `ready` once all jobs are added. SIGTERM or Ctrl-C stops it: exit code 0, or 1 if handlers still run.

A job:

  [[job]]
  name = \"sync\"
  every = \"10s\"       # or cron = \"*/5 * * * *\", or at = \"2027-01-01T00:00:00\"
  max_attempts = 2    # offset, timezone, dialect, jitter, max_late, timeout, history_size, history_ttl, overlap,
                      # retry_failed, catch_up, takeover_within: as in #[anarchon::job]
  work = \"sleep 2s\"   # awaits, and ends early when it is cancelled
                      # `ignore 2s` awaits and hears no cancellation, `block 2s` blocks its thread,
                      # `fail`, `fail-first` (at the first attempt only), `panic`, `none`

A line of the log is about a handler (`start`, `end`, `cancelled`), about this process (`ready`, `stopping`, `stopped`),
or about an event of the scheduler (`claimed`, `skipped`, `missed`, `lost`, …). Each has `instance`, `mono_ns`
(CLOCK_MONOTONIC, the same for all processes of a machine) and `wall_ms`.
";

/// Errors of this program are texts for whoever started it.
type Fallible<T> = Result<T, String>;

fn main() -> ExitCode {
    let args = match Args::parse(std::env::args().skip(1)) {
        Ok(Some(args)) => args,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(message) => return fail(&message),
    };
    let level = if args.verbose {
        tracing_subscriber::filter::LevelFilter::DEBUG
    } else {
        tracing_subscriber::filter::LevelFilter::WARN
    };
    tracing_subscriber::fmt().with_max_level(level).with_ansi(false).with_writer(std::io::stderr).init();
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => fail(&message),
    }
}

fn fail(message: &str) -> ExitCode {
    eprintln!("node: {message}");
    ExitCode::FAILURE
}

fn run(args: Args) -> Fallible<()> {
    let jobs = read_jobs(&args.jobs)?;
    let log = Log::open(&args.log, &args.instance)?;
    if args.with_stdin {
        std::thread::spawn(|| {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            std::process::exit(2);
        });
    }
    let mut runtime = match args.current_thread {
        true => tokio::runtime::Builder::new_current_thread(),
        false => tokio::runtime::Builder::new_multi_thread(),
    };
    if let Some(threads) = args.worker_threads.filter(|_| !args.current_thread) {
        runtime.worker_threads(threads);
    }
    let runtime = runtime.enable_all().build().map_err(|e| format!("no tokio runtime: {e}"))?;
    let outcome = runtime.block_on(async {
        if args.store.starts_with("memory-claims:") {
            serve(AnyClaimBackend::new(ClaimOnlyMemoryBackend::new()), &args, jobs, &log).await
        } else {
            match AnyBackend::connect(&args.store) {
                Ok(backend) => serve(backend, &args, jobs, &log).await,
                // A claim-only store; any other error is the same for both, or worse for this one.
                Err(error) => match AnyClaimBackend::connect(&args.store) {
                    Ok(backend) => serve(backend, &args, jobs, &log).await,
                    Err(_) => Err(describe(&error)),
                },
            }
        }
    });
    // A handler that blocks its thread would hold the runtime back for as long as it likes.
    runtime.shutdown_background();
    outcome
}

async fn serve<B: NodeBackend>(backend: B, args: &Args, jobs: Vec<JobTable>, log: &Log) -> Fallible<()> {
    let text = |error: anarchon::Error| describe(&error);
    let mut signals = os::Signals::new().map_err(|e| format!("no signals: {e}"))?;

    let builder = Scheduler::builder(backend).instance_id(&args.instance).state(log.clone());
    let builder = match &args.stop_grace {
        Some(grace) => builder.stop_grace(grace.as_str()),
        None => builder,
    };
    let scheduler = B::lease_settings(builder, args)?.start().await.map_err(text)?;
    let events = log_events(&scheduler, log.clone())?;
    let added = async {
        for job in jobs {
            add_job(&scheduler, job).await?;
        }
        Ok(())
    };
    if let Err(message) = added.await {
        let _ = scheduler.stop().await;
        return Err(message);
    }

    log.process("ready");
    println!("ready");
    signals.next().await;
    log.process("stopping");
    let stopped = scheduler.stop().await.map_err(text);
    drop(scheduler);
    // The engine is gone, so its events have an end.
    let _ = tokio::task::spawn_blocking(move || events.join()).await;
    log.process("stopped");
    stopped
}

/// What differs between stores with leases and claim-only ones: the types allow the options about leases on the former
/// only, and what a file asks of the latter is refused here.
trait NodeBackend: AnyStrength + Sized {
    fn lease_settings(builder: SchedulerBuilder<Self>, args: &Args) -> Fallible<SchedulerBuilder<Self>>;
    fn lease_options<'s, K>(builder: JobBuilder<'s, Self, K>, job: &JobTable) -> Fallible<JobBuilder<'s, Self, K>>;
    fn overlap<'s, K: kind::Repeats>(builder: JobBuilder<'s, Self, K>, overlap: Overlap) -> JobBuilder<'s, Self, K>;
}

impl NodeBackend for AnyBackend {
    fn lease_settings(mut builder: SchedulerBuilder<Self>, args: &Args) -> Fallible<SchedulerBuilder<Self>> {
        if let Some(lease) = &args.lease {
            builder = builder.lease(lease.as_str());
        }
        if let Some(heartbeat) = &args.heartbeat {
            builder = builder.heartbeat(heartbeat.as_str());
        }
        if let Some(watch) = &args.watch {
            builder = builder.watch(watch.as_str());
        }
        Ok(builder)
    }

    fn lease_options<'s, K>(mut builder: JobBuilder<'s, Self, K>, job: &JobTable) -> Fallible<JobBuilder<'s, Self, K>> {
        if let Some(attempts) = job.max_attempts {
            builder = builder.max_attempts(attempts);
        }
        if let Some(wait) = &job.retry_failed {
            builder = builder.retry_failed(wait.as_str());
        }
        if let Some(within) = &job.catch_up {
            builder = builder.catch_up(within.as_str());
        }
        if let Some(within) = &job.takeover_within {
            builder = builder.takeover_within(within.as_str());
        }
        if let Some(ttl) = &job.history_ttl {
            builder = builder.history_ttl(ttl.as_str());
        }
        Ok(builder)
    }

    fn overlap<'s, K: kind::Repeats>(builder: JobBuilder<'s, Self, K>, overlap: Overlap) -> JobBuilder<'s, Self, K> {
        builder.overlap(overlap)
    }
}

impl NodeBackend for AnyClaimBackend {
    fn lease_settings(builder: SchedulerBuilder<Self>, args: &Args) -> Fallible<SchedulerBuilder<Self>> {
        let set = [("--lease", &args.lease), ("--heartbeat", &args.heartbeat), ("--watch", &args.watch)];
        match set.into_iter().find(|(_, value)| value.is_some()) {
            Some((option, _)) => Err(format!("`{option}` needs a store with leases, and `{}` only claims", args.store)),
            None => Ok(builder),
        }
    }

    fn lease_options<'s, K>(builder: JobBuilder<'s, Self, K>, job: &JobTable) -> Fallible<JobBuilder<'s, Self, K>> {
        let set = [
            ("overlap", job.overlap.is_some()),
            ("max_attempts", job.max_attempts.is_some()),
            ("retry_failed", job.retry_failed.is_some()),
            ("catch_up", job.catch_up.is_some()),
            ("takeover_within", job.takeover_within.is_some()),
            ("history_ttl", job.history_ttl.is_some()),
        ];
        match set.into_iter().find(|(_, set)| *set) {
            Some((option, _)) => {
                Err(format!("job `{}` sets `{option}`, which this program offers on stores with leases only", job.name))
            }
            None => Ok(builder),
        }
    }

    fn overlap<'s, K: kind::Repeats>(builder: JobBuilder<'s, Self, K>, _: Overlap) -> JobBuilder<'s, Self, K> {
        builder
    }
}

async fn add_job<B: NodeBackend>(scheduler: &Scheduler<B>, job: JobTable) -> Fallible<()> {
    let handler = handle;
    let refused = |what: &str| Err(format!("job `{}`: {what}", job.name));
    match (&job.every, &job.cron, &job.at) {
        (Some(interval), None, None) => {
            if job.timezone.is_some() {
                return refused("`timezone` does not go with `every`: its grid is anchored at the Unix epoch");
            }
            if job.dialect.is_some() {
                return refused("`dialect` goes with `cron` only");
            }
            let mut builder = scheduler.every(&job.name, interval.as_str(), handler);
            if let Some(offset) = &job.offset {
                builder = builder.offset(offset.as_str());
            }
            if let Some(overlap) = job.overlap {
                builder = B::overlap(builder, overlap.into());
            }
            add(builder, &job).await
        }
        (None, Some(line), None) => {
            if job.offset.is_some() {
                return refused("`offset` goes with `every` only");
            }
            let mut builder = scheduler.cron(&job.name, line, handler);
            if let Some(dialect) = job.dialect {
                builder = builder.dialect(dialect.into());
            }
            if let Some(zone) = &job.timezone {
                builder = builder.timezone(zone);
            }
            if let Some(overlap) = job.overlap {
                builder = B::overlap(builder, overlap.into());
            }
            add(builder, &job).await
        }
        (None, None, Some(time)) => {
            if job.offset.is_some() {
                return refused("`offset` goes with `every` only");
            }
            if job.dialect.is_some() {
                return refused("`dialect` goes with `cron` only");
            }
            if job.overlap.is_some() {
                return refused("`overlap` does not go with `at`: a job that runs once has nothing to overlap with");
            }
            let mut builder = scheduler.at(&job.name, time, handler);
            if let Some(zone) = &job.timezone {
                builder = builder.timezone(zone);
            }
            add(builder, &job).await
        }
        (None, None, None) => refused("has no schedule; set one of `every`, `cron` and `at`"),
        _ => refused("has more than one schedule; set one of `every`, `cron` and `at`"),
    }
}

async fn add<B: NodeBackend, K>(builder: JobBuilder<'_, B, K>, job: &JobTable) -> Fallible<()> {
    let mut builder = B::lease_options(builder, job)?.data(job.work);
    if let Some(jitter) = &job.jitter {
        builder = builder.jitter(jitter.as_str());
    }
    if let Some(max_late) = &job.max_late {
        builder = builder.max_late(max_late.as_str());
    }
    if let Some(timeout) = &job.timeout {
        builder = builder.timeout(timeout.as_str());
    }
    if let Some(size) = job.history_size {
        builder = builder.history_size(size);
    }
    builder.add().await.map_err(|error| describe(&error))
}

/// An error with its causes, on one line.
fn describe(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

// The file of jobs.

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JobsFile {
    #[serde(default)]
    job: Vec<JobTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JobTable {
    name: String,
    every: Option<String>,
    cron: Option<String>,
    at: Option<String>,
    offset: Option<String>,
    timezone: Option<String>,
    dialect: Option<DialectWord>,
    jitter: Option<String>,
    max_late: Option<String>,
    timeout: Option<String>,
    history_size: Option<u32>,
    history_ttl: Option<String>,
    overlap: Option<OverlapWord>,
    max_attempts: Option<u32>,
    retry_failed: Option<String>,
    catch_up: Option<String>,
    takeover_within: Option<String>,
    work: Work,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DialectWord {
    Unix,
    Quartz,
}

impl From<DialectWord> for Dialect {
    fn from(word: DialectWord) -> Self {
        match word {
            DialectWord::Unix => Self::Unix,
            DialectWord::Quartz => Self::Quartz,
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OverlapWord {
    Skip,
    Allow,
}

impl From<OverlapWord> for Overlap {
    fn from(word: OverlapWord) -> Self {
        match word {
            OverlapWord::Skip => Self::Skip,
            OverlapWord::Allow => Self::Allow,
        }
    }
}

fn read_jobs(path: &str) -> Fallible<Vec<JobTable>> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("cannot read {path}: {e}"))?;
    let file: JobsFile = toml::from_str(&text).map_err(|e| format!("{path}: {e}"))?;
    Ok(file.job)
}

/// What a handler does.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
enum Work {
    Sleep(Duration),
    Ignore(Duration),
    Block(Duration),
    Fail,
    FailFirst,
    Panic,
    None,
}

impl TryFrom<String> for Work {
    type Error = String;

    fn try_from(text: String) -> Fallible<Self> {
        let unknown = || {
            format!(
                "unknown work {text:?}; write `sleep 2s`, `ignore 2s`, `block 2s`, `fail`, `fail-first`, `panic` or \
                 `none`"
            )
        };
        let (word, time) = match text.split_once(' ') {
            Some((word, time)) => {
                (word, Some(anarchon::interval::parse(time).map_err(|e| format!("work {text:?}: {e}"))?))
            }
            None => (text.as_str(), None),
        };
        match (word, time) {
            ("sleep", Some(time)) => Ok(Self::Sleep(time)),
            ("ignore", Some(time)) => Ok(Self::Ignore(time)),
            ("block", Some(time)) => Ok(Self::Block(time)),
            ("fail", None) => Ok(Self::Fail),
            ("fail-first", None) => Ok(Self::FailFirst),
            ("panic", None) => Ok(Self::Panic),
            ("none", None) => Ok(Self::None),
            _ => Err(unknown()),
        }
    }
}

// The handler of every job.

async fn handle(ctx: Context, State(log): State<Log>, Data(work): Data<Work>) -> Fallible<()> {
    let mut running = Running::start(log, ctx.clone());
    match work {
        Work::Sleep(time) => tokio::select! {
            () = tokio::time::sleep(time) => {}
            why = ctx.cancelled() => {
                running.say("cancelled", &why.to_string());
                return Err(format!("ended early: {why}"));
            }
        },
        Work::Ignore(time) => tokio::time::sleep(time).await,
        Work::Block(time) => std::thread::sleep(time),
        Work::FailFirst if ctx.attempt() > 1 => {}
        Work::Fail | Work::FailFirst => {
            running.say("end", "failed");
            return Err("failed as told".to_owned());
        }
        Work::Panic => {
            running.say("end", "panicked");
            panic!("panicked as told");
        }
        Work::None => {}
    }
    running.say("end", "done");
    Ok(())
}

/// A handler between its start and its end; one that is dropped in between logs that too.
struct Running {
    log: Log,
    ctx: Context,
    ended: bool,
}

impl Running {
    fn start(log: Log, ctx: Context) -> Self {
        let running = Self { log, ctx, ended: false };
        running.line("start", None);
        running
    }

    fn say(&mut self, event: &'static str, how: &str) {
        self.ended = true;
        self.line(event, Some(how));
    }

    fn line(&self, event: &'static str, how: Option<&str>) {
        self.log.write(&Line {
            job: Some(self.ctx.job().as_str()),
            slot: Some(self.ctx.slot_ms()),
            attempt: Some(self.ctx.attempt()),
            fence: self.ctx.fence(),
            reason: Some(self.ctx.reason().as_str()),
            token: Some(self.ctx.token().to_string()),
            how,
            ..self.log.line(event)
        });
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            self.line("cancelled", Some("dropped"));
        }
    }
}

// The log.

/// One line; what an event does not have is left out.
#[derive(Serialize)]
struct Line<'a> {
    event: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fence: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// How a handler or an attempt ended, or whatever else there is to say, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    how: Option<&'a str>,
    instance: &'a str,
    pid: u32,
    mono_ns: u64,
    wall_ms: i64,
}

#[derive(Clone)]
struct Log {
    file: Arc<File>,
    instance: Arc<str>,
}

impl Log {
    fn open(path: &str, instance: &str) -> Fallible<Self> {
        let file =
            File::options().create(true).append(true).open(path).map_err(|e| format!("cannot open {path}: {e}"))?;
        Ok(Self { file: Arc::new(file), instance: instance.into() })
    }

    fn line<'a>(&'a self, event: &'a str) -> Line<'a> {
        let wall = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        Line {
            event,
            job: None,
            slot: None,
            attempt: None,
            fence: None,
            reason: None,
            token: None,
            how: None,
            instance: &self.instance,
            pid: std::process::id(),
            mono_ns: os::monotonic_ns(),
            wall_ms: i64::try_from(wall.as_millis()).unwrap_or_default(),
        }
    }

    fn process(&self, event: &str) {
        self.write(&self.line(event));
    }

    /// One write call, so that lines of several processes never mix.
    fn write(&self, line: &Line<'_>) {
        let written = serde_json::to_string(line).map_err(std::io::Error::from).and_then(|mut text| {
            text.push('\n');
            (&*self.file).write_all(text.as_bytes())
        });
        if let Err(error) = written {
            eprintln!("node: the log cannot be written: {error}");
        }
    }

    fn run<'a>(&'a self, event: &'a str, run: &'a RunKey, attempt: Option<u32>, how: Option<&'a str>) -> Line<'a> {
        Line { job: Some(run.job.as_str()), slot: Some(run.slot.ms()), attempt, how, ..self.line(event) }
    }

    fn event(&self, event: &Event) {
        match event {
            Event::Claimed { run, attempt, fence, reason } => self.write(&Line {
                fence: *fence,
                reason: Some(reason.as_str()),
                ..self.run("claimed", run, Some(*attempt), None)
            }),
            Event::LostRace { run, backup } => {
                self.write(&self.run("lost-race", run, None, Some(if *backup { "backup" } else { "over" })));
            }
            Event::Started { run, attempt } => self.write(&self.run("started", run, Some(*attempt), None)),
            Event::Finished { run, attempt, status, run_status, error } => {
                let how = match error {
                    Some(error) => format!("{status}, run {run_status}: {error}"),
                    None => format!("{status}, run {run_status}"),
                };
                self.write(&self.run("finished", run, Some(*attempt), Some(&how)));
            }
            Event::LeaseLost { run, attempt } => self.write(&self.run("lost", run, Some(*attempt), None)),
            Event::HandedOver { run, attempt } => self.write(&self.run("handed-over", run, Some(*attempt), None)),
            Event::Returned { run } => self.write(&self.run("returned", run, None, None)),
            Event::Skipped { job, slot, reason, .. } => self.write(&Line {
                job: Some(job.as_str()),
                slot: Some(slot.ms()),
                how: Some(reason.as_str()),
                ..self.line("skipped")
            }),
            Event::Missed { job, slot } => {
                self.write(&Line { job: Some(job.as_str()), slot: Some(slot.ms()), ..self.line("missed") });
            }
            Event::Unclear { job, slot } => {
                self.write(&Line { job: Some(job.as_str()), slot: Some(slot.ms()), ..self.line("unclear") });
            }
            Event::LongRun { run, age } => {
                self.write(&self.run("long-run", run, None, Some(&format!("{age:?}"))));
            }
            Event::StoreTrouble { error } => self.write(&Line { how: Some(error), ..self.line("store-trouble") }),
            Event::StoreRecovered { after } => {
                self.write(&Line { how: Some(&format!("{after:?}")), ..self.line("store-recovered") });
            }
            Event::ClockSkew { offset_ms } => {
                self.write(&Line { how: Some(&offset_ms.to_string()), ..self.line("clock-skew") });
            }
            Event::TimeJump { by } => self.write(&Line { how: Some(&format!("{by:?}")), ..self.line("time-jump") }),
            Event::FingerprintMismatch { job, ours, theirs, instance } => self.write(&Line {
                job: Some(job.as_str()),
                how: Some(&format!("here {ours}, on {instance} {theirs}")),
                ..self.line("fingerprint-mismatch")
            }),
            other => self.write(&Line { how: Some(&format!("{other:?}")), ..self.line("other") }),
        }
    }
}

/// Logs events from a thread of its own, so that a handler which blocks its thread delays none.
fn log_events<B>(scheduler: &Scheduler<B>, log: Log) -> Fallible<std::thread::JoinHandle<()>> {
    use tokio::sync::broadcast::error::RecvError;
    let mut events = scheduler.events();
    let thread = std::thread::Builder::new().name("events".to_owned());
    let spawned = thread.spawn(move || {
        loop {
            match events.blocking_recv() {
                Ok(event) => log.event(&event),
                Err(RecvError::Lagged(count)) => {
                    log.write(&Line { how: Some(&count.to_string()), ..log.line("events-lost") });
                }
                Err(RecvError::Closed) => return,
            }
        }
    });
    spawned.map_err(|e| format!("no thread: {e}"))
}

/// What is not the same on every system.
#[cfg(unix)]
mod os {
    use rustix::time::{ClockId, clock_gettime};
    use tokio::signal::unix::{Signal, SignalKind, signal};

    pub(super) fn monotonic_ns() -> u64 {
        let time = clock_gettime(ClockId::Monotonic);
        u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or_default()
    }

    pub(super) struct Signals {
        terminate: Signal,
        interrupt: Signal,
    }

    impl Signals {
        pub(super) fn new() -> std::io::Result<Self> {
            Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
        }

        pub(super) async fn next(&mut self) {
            tokio::select! {
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
            }
        }
    }
}

/// What is not the same on every system. Here the clock begins with the process, and only Ctrl-C stops it.
#[cfg(not(unix))]
mod os {
    use std::sync::OnceLock;
    use std::time::Instant;

    pub(super) fn monotonic_ns() -> u64 {
        static BEGAN: OnceLock<Instant> = OnceLock::new();
        u64::try_from(BEGAN.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or_default()
    }

    pub(super) struct Signals;

    impl Signals {
        pub(super) fn new() -> std::io::Result<Self> {
            Ok(Self)
        }

        pub(super) async fn next(&mut self) {
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

// The command line.

#[derive(Default)]
struct Args {
    store: String,
    instance: String,
    jobs: String,
    log: String,
    lease: Option<String>,
    heartbeat: Option<String>,
    watch: Option<String>,
    stop_grace: Option<String>,
    worker_threads: Option<usize>,
    current_thread: bool,
    with_stdin: bool,
    verbose: bool,
}

impl Args {
    /// `None` when help was asked for.
    fn parse(mut words: impl Iterator<Item = String>) -> Fallible<Option<Self>> {
        let mut args = Self::default();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("`{word}` needs a value; see --help"));
            match word.as_str() {
                "--store" => args.store = value()?,
                "--instance" => args.instance = value()?,
                "--jobs" => args.jobs = value()?,
                "--log" => args.log = value()?,
                "--lease" => args.lease = Some(value()?),
                "--heartbeat" => args.heartbeat = Some(value()?),
                "--watch" => args.watch = Some(value()?),
                "--stop-grace" => args.stop_grace = Some(value()?),
                "--worker-threads" => {
                    let value = value()?;
                    let threads = usize::from_str(&value).ok().filter(|n| *n > 0);
                    args.worker_threads =
                        Some(threads.ok_or_else(|| format!("`{word} {value}` is no number of threads"))?);
                }
                "--current-thread" => args.current_thread = true,
                "--with-stdin" => args.with_stdin = true,
                "--verbose" => args.verbose = true,
                "--help" | "-h" => return Ok(None),
                _ => return Err(format!("unknown argument `{word}`; see --help")),
            }
        }
        let needed =
            [("--store", &args.store), ("--instance", &args.instance), ("--jobs", &args.jobs), ("--log", &args.log)];
        if let Some((option, _)) = needed.into_iter().find(|(_, value)| value.is_empty()) {
            return Err(format!("`{option}` is missing; see --help"));
        }
        Ok(Some(args))
    }
}
