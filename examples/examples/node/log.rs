//! The log: one JSON line per event of a handler, of this process or of the scheduler.

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;

use anarchon::run::RunKey;
use anarchon::{Event, Scheduler};
use serde::Serialize;

use crate::{Fallible, os};

/// One line; what an event does not have is left out.
#[derive(Serialize)]
pub(crate) struct Line<'a> {
    pub(crate) event: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) slot: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fence: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
    /// How a handler or an attempt ended, or whatever else there is to say, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) how: Option<&'a str>,
    pub(crate) instance: &'a str,
    pub(crate) pid: u32,
    pub(crate) mono_ns: u64,
    pub(crate) wall_ms: i64,
}

#[derive(Clone)]
pub(crate) struct Log {
    file: Arc<File>,
    instance: Arc<str>,
}

impl Log {
    pub(crate) fn open(path: &str, instance: &str) -> Fallible<Self> {
        let file =
            File::options().create(true).append(true).open(path).map_err(|e| format!("cannot open {path}: {e}"))?;
        Ok(Self { file: Arc::new(file), instance: instance.into() })
    }

    pub(crate) fn line<'a>(&'a self, event: &'a str) -> Line<'a> {
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

    pub(crate) fn process(&self, event: &str) {
        self.write(&self.line(event));
    }

    /// One write call, so that lines of several processes never mix.
    pub(crate) fn write(&self, line: &Line<'_>) {
        let written = serde_json::to_string(line).map_err(std::io::Error::from).and_then(|mut text| {
            text.push('\n');
            (&*self.file).write_all(text.as_bytes())
        });
        if let Err(error) = written {
            eprintln!("node: the log cannot be written: {error}");
        }
    }

    pub(crate) fn run<'a>(
        &'a self,
        event: &'a str,
        run: &'a RunKey,
        attempt: Option<u32>,
        how: Option<&'a str>,
    ) -> Line<'a> {
        Line { job: Some(run.job.as_str()), slot: Some(run.slot.ms()), attempt, how, ..self.line(event) }
    }

    pub(crate) fn event(&self, event: &Event) {
        match event {
            Event::Claimed { run, attempt, fence, reason, .. } => self.write(&Line {
                fence: *fence,
                reason: Some(reason.as_str()),
                ..self.run("claimed", run, Some(*attempt), None)
            }),
            Event::LostRace { run, backup } => {
                self.write(&self.run("lost-race", run, None, Some(if *backup { "backup" } else { "over" })));
            }
            Event::Started { run, attempt } => self.write(&self.run("started", run, Some(*attempt), None)),
            Event::Finished { run, attempt, status, run_status, error, .. } => {
                let how = match error {
                    Some(error) => format!("{status}, run {run_status}: {error}"),
                    None => format!("{status}, run {run_status}"),
                };
                self.write(&self.run("finished", run, Some(*attempt), Some(&how)));
            }
            Event::LeaseLost { run, attempt } => self.write(&self.run("lost", run, Some(*attempt), None)),
            Event::HandedOver { run, attempt, .. } => self.write(&self.run("handed-over", run, Some(*attempt), None)),
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
            Event::StoreTrouble { error, .. } => self.write(&Line { how: Some(error), ..self.line("store-trouble") }),
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
pub(crate) fn log_events<B>(scheduler: &Scheduler<B>, log: Log) -> Fallible<std::thread::JoinHandle<()>> {
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
