//! Commands that do something: `run`, `run-now`, `pause` and `resume`.

use serde_json::json;

use super::output::{Failure, Output, style_of};
use super::table::{Cell, Line};
use crate::backend::AnyStrength;
use crate::error::Error;
use crate::run::AttemptStatus;
use crate::scheduler::entry::{Signals, run_until_signal};
use crate::scheduler::{ManualRun, Scheduler, SchedulerBuilder};

pub(super) async fn run<B: AnyStrength>(builder: SchedulerBuilder<B>) -> Result<Output, Failure> {
    let scheduler = builder.start().await?;
    let instance = scheduler.instance_id().to_string();
    run_until_signal(&scheduler).await.map_err(Failure::Failed)?;
    Ok(Output::new(json!({ "instance": instance, "stopped": true }), Vec::new()))
}

pub(super) async fn run_now<B: AnyStrength>(builder: SchedulerBuilder<B>, job: &str) -> Result<Output, Failure> {
    let scheduler = builder.start_idle().await?;
    let outcome = run_here(&scheduler, job).await;
    let stopped = scheduler.stop().await;
    let outcome = outcome?;
    stopped?;
    Ok(outcome)
}

async fn run_here<B>(scheduler: &Scheduler<B>, job: &str) -> Result<Output, Failure> {
    let mut signals = Signals::new().map_err(|source| Error::System { what: "signals cannot be received", source })?;
    let run = scheduler.run_now(job).await?;
    let (slot, token) = (run.run().slot, run.run().manual);
    let ended = ended(scheduler, run, &mut signals).await?;
    let record = scheduler.history(job, u32::from(u8::MAX)).await?;
    let record = record.iter().filter_map(|record| record.attempt()).find(|attempt| attempt.run.manual == token);
    let json = json!({
        "job": job,
        "status": ended.as_str(),
        "slot": slot.to_string(),
        "run": record.map(super::json::attempt),
    });
    let error = record.and_then(|record| record.error.as_deref()).map(|error| format!(": {error}")).unwrap_or_default();
    let text = Cell::styled(format!("{job}: {ended}{error}"), style_of(ended.as_str()));
    let code = if ended == AttemptStatus::Done { 0 } else { 1 };
    Ok(Output { code, ..Output::new(json, vec![Line::Text(text)]) })
}

/// Waits for the run; at a signal it is told to stop, as every run of an instance that stops is.
async fn ended<B>(scheduler: &Scheduler<B>, run: ManualRun, signals: &mut Signals) -> Result<AttemptStatus, Failure> {
    let end = run.finished();
    tokio::pin!(end);
    tokio::select! {
        ended = &mut end => return Ok(ended?),
        () = signals.next() => {}
    }
    tokio::select! {
        stopped = scheduler.stop() => stopped?,
        () = signals.next() => return Err(Failure::Failed("stopped at once by a second signal".to_owned())),
    }
    Err(Failure::Failed("stopped by a signal".to_owned()))
}

pub(super) async fn pause<B: AnyStrength>(
    builder: SchedulerBuilder<B>,
    job: &str,
    note: &str,
) -> Result<Output, Failure> {
    set_paused(builder, job, Some(note)).await
}

pub(super) async fn resume<B: AnyStrength>(builder: SchedulerBuilder<B>, job: &str) -> Result<Output, Failure> {
    set_paused(builder, job, None).await
}

async fn set_paused<B: AnyStrength>(
    builder: SchedulerBuilder<B>,
    job: &str,
    note: Option<&str>,
) -> Result<Output, Failure> {
    let scheduler = builder.start_idle().await?;
    let outcome = async {
        known(&scheduler, job).await?;
        match note {
            Some(note) => scheduler.pause(job, note).await?,
            None => scheduler.resume(job).await?,
        }
        Ok(scheduler.paused(job).await?)
    };
    let outcome: Result<_, Failure> = outcome.await;
    let stopped = scheduler.stop().await;
    let pause = outcome?;
    stopped?;
    let text = match &pause {
        Some(pause) => format!("{job} is {}", super::text::paused(pause)),
        None => format!("{job} is not paused"),
    };
    Ok(Output::new(json!({ "job": job, "paused": pause.as_ref().map(super::json::pause) }), vec![Line::text(text)]))
}

/// A typing error must not pause a job that nobody has.
async fn known<B>(scheduler: &Scheduler<B>, job: &str) -> Result<(), Failure> {
    let jobs = scheduler.jobs().await?;
    if jobs.iter().any(|known| known.name.as_str() == job) {
        return Ok(());
    }
    // Jobs that are added while the program runs are known to the store alone.
    if !scheduler.history(job, 1).await?.is_empty() {
        return Ok(());
    }
    Err(Failure::unknown_job(job, jobs.iter().map(|job| job.name.as_str())))
}
