//! One instance of `bench cluster`: a process that says on standard output what it does, a line each, so that nothing
//! is lost when it is killed.

use std::io::Write as _;
use std::time::Duration;

use anarchon::{AnyBackend, Context, Overlap, Scheduler};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::Fallible;
use crate::counting::Counting;
use crate::options::Options;
use crate::usage::{own_cpu, own_memory, wall_us};

/// How often it says what it has used.
const SAMPLE: Duration = Duration::from_millis(500);

/// The hidden command. Ends when standard input does.
pub(crate) async fn run(options: &Options) -> Fallible<()> {
    let (store, calls) = Counting::new(AnyBackend::connect(options.text("store", ""))?);
    let scheduler = Scheduler::builder(store)
        .instance_id(format!("bench-{}-{}", options.text("id", "0"), std::process::id()))
        .lease(options.duration("lease", "15s")?)
        .start()
        .await?;
    let overlap = if options.text("overlap", "allow") == "skip" { Overlap::Skip } else { Overlap::Allow };
    let (every, jitter) = (options.duration("every", "1s")?, options.duration("jitter", "0s")?);
    let work = options.duration("work", "0s")?;
    for job in 0..options.number("jobs", 1_usize)? {
        let handler = move |context: Context| async move {
            let (slot, attempt) = (context.slot_ms(), context.attempt());
            say(&format!("start {job} {slot} {} {attempt}", wall_us()));
            if !work.is_zero() {
                tokio::time::sleep(work).await;
            }
            say(&format!("end {job} {slot} {} {attempt}", wall_us()));
        };
        scheduler.every(format!("bench-{job}"), every, handler).overlap(overlap).jitter(jitter).add().await?;
    }
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
