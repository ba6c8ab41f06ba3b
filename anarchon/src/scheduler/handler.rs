//! The task in which a handler runs: from its first step to the report of its end.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;

use futures_util::FutureExt as _;
use tokio::sync::mpsc;

use super::engine::Input;
use crate::backend::DynStore;
use crate::clock::Clock;
use crate::context::Context;
use crate::error::BoxError;
use crate::extract::{RunParts, StateMap};
use crate::job::Job;

/// An error text is cut to this many bytes.
const LONGEST_ERROR: usize = 4096;

/// How a handler ended, as its task reports it.
pub(super) enum Ended {
    Ok,
    Failed(String),
    /// Dropped at an await, by us or by its runtime.
    Dropped,
    /// Dropped at an await, since its lease may be over and the engine had not said so yet.
    Fenced,
}

/// What all handlers of an instance need. A task takes it as a whole: counting each part for each run costs more than
/// the rest of its start, since several threads do so at once.
pub(super) struct Home {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) state: Arc<StateMap>,
    pub(super) store: Arc<dyn DynStore>,
    pub(super) inputs: mpsc::UnboundedSender<Input>,
}

/// A handler that is about to start.
pub(super) struct Starting {
    pub(super) run: u64,
    pub(super) job: Arc<Job>,
    pub(super) context: Context,
    pub(super) span: tracing::Span,
}

/// Handlers that are about to start together.
pub(super) struct Batch {
    pub(super) home: Arc<Home>,
    pub(super) starting: std::vec::IntoIter<Starting>,
}

impl Batch {
    pub(super) async fn run(mut self) {
        for one in self.starting.by_ref() {
            tokio::spawn(one.run(Arc::clone(&self.home)));
        }
    }
}

impl Drop for Batch {
    /// A runtime that shuts down drops tasks before their first step.
    fn drop(&mut self) {
        for one in self.starting.by_ref() {
            drop(Report { run: one.run, context: one.context, home: Arc::clone(&self.home), said: false });
        }
    }
}

impl Starting {
    pub(super) fn run(self, home: Arc<Home>) -> impl Future<Output = ()> + Send + 'static {
        let Self { run, job, context, span } = self;
        let mut report = Report { run, context, home, said: false };
        let run = async move {
            let mut ended = run_handler(&job, &report.context, &report.home).await;
            report.context.0.signals.blocking_ended().await;
            // As may a value that the job was given, if nobody else has it any more.
            if let Err(panic) = std::panic::catch_unwind(AssertUnwindSafe(|| drop(job))) {
                ended = Ended::Failed(panicked("panicked while dropped", panic));
            }
            report.say(ended);
        };
        tracing::Instrument::instrument(run, span)
    }
}

async fn run_handler(job: &Job, context: &Context, home: &Home) -> Ended {
    let (signals, clock) = (&context.0.signals, &*home.clock);
    // Its runtime may have hung for longer than the lease lasted: then not even its first step is taken.
    if signals.is_to_be_dropped() {
        return Ended::Dropped;
    }
    if signals.is_fenced(clock.boot()) {
        return Ended::Fenced;
    }
    // The handler's own first steps may panic as well as its future.
    let parts = RunParts { context, state: &home.state, data: job.data.as_ref(), store: &home.store };
    let mut future = match std::panic::catch_unwind(AssertUnwindSafe(|| job.handler.call(&parts))) {
        Ok(future) => AssertUnwindSafe(future).catch_unwind(),
        Err(panic) => return Ended::Failed(panicked("panicked", panic)),
    };
    let mut dropped = std::pin::pin!(signals.to_be_dropped());
    let result = std::future::poll_fn(|cx| {
        // First: whatever else may have woken it, it takes no step more, since another may run by now. The engine wakes
        // it when it says so itself.
        if signals.is_to_be_dropped() {
            return Poll::Ready(Err(Ended::Dropped));
        }
        if signals.is_fenced(clock.boot()) {
            return Poll::Ready(Err(Ended::Fenced));
        }
        if let Poll::Ready(result) = future.poll_unpin(cx) {
            return Poll::Ready(Ok(result));
        }
        // Only who waits needs to be woken: many handlers end with their first step.
        dropped.as_mut().poll(cx).map(|()| Err(Ended::Dropped))
    });
    let ended = match result.await {
        Err(ended) => ended,
        Ok(Ok(Ok(()))) => Ended::Ok,
        // The error's own code may panic too, as it is shown and dropped.
        Ok(Ok(Err(error))) => match std::panic::catch_unwind(AssertUnwindSafe(|| with_causes(error))) {
            Ok(text) => Ended::Failed(error_text(&text)),
            Err(panic) => Ended::Failed(panicked("panicked while its error was shown", panic)),
        },
        Ok(Err(panic)) => Ended::Failed(panicked("panicked", panic)),
    };
    // What the future holds may panic when it is dropped; that is the handler's failure and nobody else's.
    match std::panic::catch_unwind(AssertUnwindSafe(|| drop(future))) {
        Ok(()) => ended,
        Err(panic) => Ended::Failed(panicked("panicked while dropped", panic)),
    }
}

fn panicked(when: &str, panic: Box<dyn Any + Send>) -> String {
    let text = error_text(&format!("{when}: {}", panic_text(&*panic)));
    // What was panicked with may panic as it is dropped.
    let _ = std::panic::catch_unwind(AssertUnwindSafe(|| drop(panic)));
    text
}

/// Tells the engine that a handler has ended, also when its runtime drops the task.
struct Report {
    run: u64,
    context: Context,
    home: Arc<Home>,
    said: bool,
}

impl Report {
    fn say(&mut self, ended: Ended) {
        self.said = true;
        let _ = self.home.inputs.send(Input::Ended(self.run, ended));
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if self.said {
            return;
        }
        // The runtime drops the task, and not the blocking work that it has begun: the run goes on until that has ended.
        let (run, inputs) = (self.run, self.home.inputs.clone());
        self.context.0.signals.once_blocking_ended(move || {
            let _ = inputs.send(Input::Ended(run, Ended::Dropped));
        });
    }
}

fn with_causes(error: BoxError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    // An error may be its own cause, so what is cut off anyway is not gathered.
    while let Some(error) = cause.filter(|_| text.len() < LONGEST_ERROR) {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".to_owned())
}

/// At most 4 KiB, with control characters replaced.
pub(super) fn error_text(text: &str) -> String {
    let mut kept = String::with_capacity(text.len().min(LONGEST_ERROR));
    for c in text.chars() {
        let c = if c.is_control() { ' ' } else { c };
        if kept.len() + c.len_utf8() > LONGEST_ERROR {
            break;
        }
        kept.push(c);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::{error_text, with_causes};

    #[derive(Debug)]
    struct Endless;

    impl std::fmt::Display for Endless {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("again")
        }
    }

    impl std::error::Error for Endless {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(self)
        }
    }

    #[test]
    fn an_error_that_is_its_own_cause_is_shown_all_the_same() {
        assert!(with_causes(Box::new(Endless)).starts_with("again: again"));
    }

    #[test]
    fn an_error_text_has_no_control_characters_and_ends_at_a_character() {
        assert_eq!(error_text("a\nb\0c"), "a b c");
        let long = "é".repeat(5000);
        let text = error_text(&long);
        assert_eq!(text.len(), 4096);
        assert!(text.chars().all(|c| c == 'é'));
    }
}
