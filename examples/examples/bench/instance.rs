//! One instance of `bench cluster`: a process that says on standard output what it does, a line each, so that nothing
//! is lost when it is killed.

use std::io::Write as _;
use std::time::Duration;

use anarchon::{AnyBackend, AnyClaimBackend, ClaimBackend, Context, LeaseBackend, Overlap, Scheduler};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::Fallible;
use crate::counting::{Calls, Counting};
use crate::options::Options;
use crate::usage::{own_cpu, own_memory, wall_us};

/// How often it says what it has used.
const SAMPLE: Duration = Duration::from_millis(500);

/// The hidden command. Ends when standard input does.
pub(crate) async fn run(options: &Options) -> Fallible<()> {
    let url = options.text("store", "");
    #[cfg(feature = "servers")]
    {
        use anarchon::backend::redis::{Idmp, Script, StreamId};
        use anarchon::{RedisBackend, ValkeyBackend};

        match (options.text("strategy", ""), url.starts_with("valkey")) {
            ("stream-id", false) => return claiming(options, RedisBackend::new(url).strategy(StreamId)).await,
            ("stream-id", true) => return claiming(options, ValkeyBackend::new(url).strategy(StreamId)).await,
            ("script", false) => return claiming(options, RedisBackend::new(url).strategy(Script::default())).await,
            ("script", true) => return claiming(options, ValkeyBackend::new(url).strategy(Script::default())).await,
            ("idmp", false) => return claiming(options, RedisBackend::new(url).strategy(Idmp::default())).await,
            _ => {}
        }
    }
    match AnyClaimBackend::connect(url) {
        Ok(store) => claiming(options, store).await,
        Err(_) => leasing(options, AnyBackend::connect(url)?).await,
    }
}

/// With leases.
async fn leasing(options: &Options, store: impl LeaseBackend) -> Fallible<()> {
    let (store, calls) = Counting::new(store);
    let builder = Scheduler::builder(store).instance_id(id(options)).lease(options.duration("lease", "15s")?);
    let scheduler = builder.start().await?;
    let overlap = if options.text("overlap", "allow") == "skip" { Overlap::Skip } else { Overlap::Allow };
    let (every, jitter) = (options.duration("every", "1s")?, options.duration("jitter", "0s")?);
    for job in 0..options.number("jobs", 1_usize)? {
        let handler = handler(options, job)?;
        scheduler.every(format!("bench-{job}"), every, handler).overlap(overlap).jitter(jitter).add().await?;
    }
    report(&scheduler, &calls).await
}

/// Without.
async fn claiming(options: &Options, store: impl ClaimBackend) -> Fallible<()> {
    let (store, calls) = Counting::new(store);
    let scheduler = Scheduler::builder(store).instance_id(id(options)).start().await?;
    let (every, jitter) = (options.duration("every", "1s")?, options.duration("jitter", "0s")?);
    for job in 0..options.number("jobs", 1_usize)? {
        let handler = handler(options, job)?;
        scheduler.every(format!("bench-{job}"), every, handler).jitter(jitter).add().await?;
    }
    report(&scheduler, &calls).await
}

fn id(options: &Options) -> String {
    format!("bench-{}-{}", options.text("id", "0"), std::process::id())
}

fn handler(
    options: &Options,
    job: usize,
) -> Fallible<impl Fn(Context) -> BoxFuture<'static, ()> + Clone + Send + Sync + 'static> {
    let work = options.duration("work", "0s")?;
    Ok(move |context: Context| {
        let (slot, attempt) = (context.slot_ms(), context.attempt());
        async move {
            say(&format!("start {job} {slot} {} {attempt}", wall_us()));
            if !work.is_zero() {
                tokio::time::sleep(work).await;
            }
            say(&format!("end {job} {slot} {} {attempt}", wall_us()));
        }
        .boxed()
    })
}

/// Says what is used, again and again, until standard input ends.
async fn report<B>(scheduler: &Scheduler<B>, calls: &Calls) -> Fallible<()> {
    let sample = || -> Fallible<()> {
        let figures = json!({
            "at": wall_us(),
            "calls": calls.figures(),
            "cpu_us": u64::try_from(own_cpu().as_micros())?,
            "memory": own_memory()?,
        });
        say(&format!("used {figures}"));
        Ok(())
    };
    say("ready");
    sample()?;
    let mut input = BufReader::new(tokio::io::stdin()).lines();
    let mut samples = tokio::time::interval(SAMPLE);
    loop {
        tokio::select! {
            line = input.next_line() => if line?.is_none() { break },
            _ = samples.tick() => sample()?,
        }
    }
    sample()?;
    scheduler.stop().await?;
    Ok(())
}

/// A whole line in one write, at once.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // Whoever started this process may have gone; it ends soon then.
    let _ = out.write_all(format!("{line}\n").as_bytes());
    let _ = out.flush();
}
