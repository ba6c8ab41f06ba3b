//! What handlers do: the work that a job is given.

use std::time::Duration;

use anarchon::{Context, Data, State};
use serde::Deserialize;

use crate::Fallible;
use crate::log::{Line, Log};

/// What a handler does.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum Work {
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
pub(crate) async fn handle(ctx: Context, State(log): State<Log>, Data(work): Data<Work>) -> Fallible<()> {
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
