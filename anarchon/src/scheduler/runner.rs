//! The life of a run on this instance: from the won claim to the end of its handler.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::mpsc;

use super::claim::Claim;
use super::clocks::Now;
use super::engine::{Engine, Input};
use super::manual::Waiter;
use super::timer::{JobId, Timer};
use crate::clock::Clock;
use crate::context::{CancelReason, Context, ContextParts, Signals};
use crate::error::BoxError;
use crate::event::Event;
use crate::extract::{RunParts, StateMap};
use crate::job::Job;
use crate::run::{AttemptStatus, Ending, Finish, Reason, Release, RunKey};
use crate::slot::{Slot, Token};

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

/// What a won claim said.
#[derive(Clone, Copy, Debug)]
pub(super) struct Win {
    pub(super) attempt: u32,
    pub(super) fence: Option<u64>,
    pub(super) reason: Reason,
    pub(super) max_attempts: u32,
}

/// What is left to be said to the store about a run.
#[derive(Clone, Debug)]
pub(super) enum Last {
    Finish(Finish),
    Release(Release),
}

/// A run on this instance.
pub(super) struct Run {
    pub(super) job: Arc<Job>,
    /// Its job, which may have been removed meanwhile; a manual run is of no slot, and has none.
    pub(super) job_id: Option<JobId>,
    pub(super) key: RunKey,
    pub(super) win: Win,
    pub(super) token: Token,
    /// When, since boot, its lease may be over: counted from the sending of the last answered request.
    pub(super) lease_until: Duration,
    pub(super) timeout_at: Option<Duration>,
    timed_out: bool,
    pub(super) cancelled: Option<CancelReason>,
    /// The store has said that the lease is over.
    pub(super) lost: bool,
    said_lost: bool,
    /// The handler has ended, and this is to be said.
    pub(super) last: Option<Last>,
    /// When, since boot, it ended.
    pub(super) ended: Duration,
    /// What is to be said is under way.
    pub(super) saying: bool,
    pub(super) tries: u32,
    /// stop() gave up on its handler.
    pub(super) abandoned: bool,
    pub(super) waiter: Option<Waiter>,
    reins: Reins,
}

/// The engine's hold on a handler, which is dropped when the engine lets go of it.
struct Reins(Context);

impl Drop for Reins {
    fn drop(&mut self) {
        self.0.0.signals.let_go();
    }
}

impl Run {
    /// The lease is not over before `until`.
    pub(super) fn renewed(&mut self, until: Duration, margin: Duration) {
        self.lease_until = self.lease_until.max(until);
        self.reins.0.0.signals.set_fence(self.lease_until.saturating_sub(margin));
    }

    /// Whether another instance may start it again after a stop.
    pub(super) fn can_hand_over(&self, leases: bool) -> bool {
        leases && self.key.manual.is_none() && self.win.max_attempts > 1
    }
}

impl Engine {
    pub(super) fn won(&mut self, claim: Claim, key: RunKey, win: Win, sent: Duration, now: Now) {
        let lease_until = sent + self.settings.lease;
        let too_late = self.leases && now.boot + self.settings.margin() * 2 >= lease_until;
        let state = self.jobs.get_mut(claim.due.job);
        let wanted = state.as_ref().is_some_and(|state| !state.running.has(key.slot)) && self.stopping.is_none();
        if self.leases && (too_late || !wanted) {
            self.return_unstarted(key, claim.token, now);
            return;
        }
        if let Some(state) = state {
            state.skips = None;
        }
        self.watched.remove(&key);
        let Win { attempt, fence, reason, .. } = win;
        self.tell(|| Event::Claimed { run: key.clone(), attempt, fence, reason });
        self.start(claim.job, Some(claim.due.job), key, win, claim.token, lease_until, None, now);
    }

    /// Makes a run of a won claim; its handler starts in [`start_handlers`](Self::start_handlers).
    #[allow(clippy::too_many_arguments)]
    pub(super) fn start(
        &mut self,
        job: Arc<Job>,
        job_id: Option<JobId>,
        key: RunKey,
        win: Win,
        token: Token,
        lease_until: Duration,
        waiter: Option<Waiter>,
        now: Now,
    ) {
        let id = self.id();
        let timeout_at = job.timeout.map(|timeout| now.boot + timeout);
        let deadline =
            job.timeout.map(|timeout| Slot::from_ms(crate::lease::later(self.store_ms(now), timeout)).to_datetime());
        let context = Context(Arc::new(ContextParts {
            run: key.clone(),
            attempt: win.attempt,
            token,
            fence: win.fence,
            reason: win.reason,
            instance: self.instance.clone(),
            deadline,
            signals: Signals::default(),
        }));
        let reins = Reins(context.clone());
        if self.leases {
            context.0.signals.set_fence(lease_until.saturating_sub(self.settings.margin()));
        }
        self.starting.push(Starting {
            run: id,
            job: Arc::clone(&job),
            context,
            span: tracing::info_span!("run", job = %key.job, slot = %key.slot, attempt = win.attempt),
        });
        self.tell(|| Event::Started { run: key.clone(), attempt: win.attempt });
        if let Some(at) = timeout_at {
            self.time_timeout(at);
        }
        if let Some(job) = job_id {
            self.jobs.run_begins(job, &key);
        }
        let run = Run {
            job,
            job_id,
            key,
            win,
            token,
            lease_until,
            timeout_at,
            timed_out: false,
            cancelled: None,
            lost: false,
            said_lost: false,
            last: None,
            ended: now.boot,
            saying: false,
            tries: 0,
            abandoned: false,
            waiter,
            reins,
        };
        self.runs.insert(id, Box::new(run));
        if self.leases {
            self.begin_beating(lease_until, now);
            self.time_fence(lease_until.saturating_sub(self.settings.margin() * 2));
        }
        if self.stopping.is_some() {
            self.stop_run(id, now);
        }
    }

    /// Starts what was won on the user's runtime. Many handlers are brought there by one task: waking another thread for
    /// each costs more than most of them take.
    pub(super) fn start_handlers(&mut self) {
        if self.starting.len() > 1 {
            let next = Vec::with_capacity(self.starting.len());
            let starting = std::mem::replace(&mut self.starting, next);
            let batch = Batch { home: Arc::clone(&self.home), starting: starting.into_iter() };
            self.handlers.spawn(batch.run());
        } else if let Some(one) = self.starting.pop() {
            self.handlers.spawn(one.run(Arc::clone(&self.home)));
        }
    }

    /// Tells a handler to stop; it is dropped at its next await when the grace is over.
    pub(super) fn cancel(&mut self, id: u64, reason: CancelReason, grace: Duration, now: Now) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        if run.last.is_some() {
            return;
        }
        if run.cancelled.is_none() {
            run.cancelled = Some(reason);
            run.reins.0.0.signals.cancel(reason);
        }
        if grace.is_zero() {
            self.drop_handler(id);
        } else {
            self.timers.set(now.boot + grace, Timer::Drop(id));
        }
    }

    pub(super) fn drop_handler(&self, id: u64) {
        if let Some(run) = self.runs.get(&id) {
            run.reins.0.0.signals.drop_handler();
        }
    }

    /// One timer for all time-outs: one for each run would stay until its time-out, however long ago the run ended.
    fn time_timeout(&mut self, at: Duration) {
        if self.timeout_at.is_none_or(|set| at < set) {
            self.timeout_at = Some(at);
            self.timers.set(at, Timer::Timeout);
        }
    }

    pub(super) fn check_timeouts(&mut self, now: Now) {
        // A timer that an earlier one has replaced sets no other.
        if self.timeout_at.is_none_or(|at| at > now.boot) {
            return;
        }
        self.timeout_at = None;
        let going = self.runs.iter_mut().filter(|(_, run)| run.last.is_none());
        let mut over = Vec::new();
        let mut next: Option<Duration> = None;
        for (id, run) in going {
            match run.timeout_at {
                Some(at) if at <= now.boot && !run.timed_out => {
                    run.timed_out = true;
                    over.push(*id);
                }
                Some(at) if at > now.boot => next = Some(next.map_or(at, |next| next.min(at))),
                _ => {}
            }
        }
        over.into_iter().for_each(|id| self.timed_out(id, now));
        if let Some(at) = next {
            self.time_timeout(at);
        }
    }

    fn timed_out(&mut self, id: u64, now: Now) {
        let grace = self.settings.stop_grace;
        let Some(run) = self.runs.get(&id).filter(|run| run.last.is_none()) else { return };
        tracing::warn!(run = %run.key, timeout = ?run.job.timeout, "the run takes longer than its time-out");
        self.cancel(id, CancelReason::Timeout, grace, now);
    }

    /// The handler has ended: decides what the store is told.
    pub(super) fn handler_ended(&mut self, id: u64, ended: Ended, now: Now) {
        let leases = self.leases;
        let store_now = self.store_ms(now);
        let instance = self.instance.clone();
        let Some(run) = self.runs.get_mut(&id) else { return };
        let key = run.key.clone();
        let finish = |ending, last| {
            let retention = run.job.retention;
            let finish = Finish::new(key.clone(), run.token, ending, instance, store_now);
            Some(Last::Finish(Finish { last, retention, ..finish }))
        };
        // A handler that a dying runtime drops is given up like one that stop() drops.
        let reason = match (&ended, run.cancelled) {
            (Ended::Dropped, None) => Some(CancelReason::Stop),
            (Ended::Fenced, None) => Some(CancelReason::LeaseLost),
            (_, reason) => reason,
        };
        let last = match (ended, reason) {
            (Ended::Ok, _) => finish(Ending::Done, false),
            (Ended::Failed(text), None) => finish(Ending::Failed(text), false),
            (Ended::Dropped | Ended::Fenced, None) => None,
            (_, Some(CancelReason::LeaseLost)) => None,
            (ended, Some(CancelReason::Timeout)) => {
                let limit = run.job.timeout.unwrap_or_default();
                let mut text = format!("ran longer than {}", anarchon_schedule::interval::format(limit));
                if let Ended::Failed(error) = ended {
                    text = error_text(&format!("{text}; then it returned: {error}"));
                }
                finish(Ending::TimedOut(text), false)
            }
            (_, Some(CancelReason::Stop)) if run.can_hand_over(leases) => {
                Some(Last::Release(Release::hand_over(key.clone(), run.token)))
            }
            (ended, Some(CancelReason::Stop)) => {
                let text = match ended {
                    Ended::Failed(error) => error_text(&format!("stopped; it returned: {error}")),
                    _ => "stopped".to_owned(),
                };
                finish(Ending::Failed(text), true)
            }
        };
        match last {
            Some(last) => {
                run.last = Some(last);
                run.ended = now.boot;
                self.say_last(id, now);
            }
            None => self.lose(id, now),
        }
    }

    /// The run is not this instance's any more: it becomes a backup of it.
    pub(super) fn lose(&mut self, id: u64, now: Now) {
        let Some(run) = self.forget_run(id) else { return };
        if !run.said_lost {
            self.say_lost(&run);
        }
        Waiter::tell(run.waiter, Ok(AttemptStatus::Lost));
        let watch = self.settings.watch;
        self.watch_run(run.key, watch, now);
        self.read_active(vec![run.job.name.clone()]);
    }

    /// Says it when the handler is told, however long that goes on.
    pub(super) fn say_lease_lost(&mut self, id: u64) {
        if let Some(run) = self.runs.get_mut(&id)
            && !std::mem::replace(&mut run.said_lost, true)
            && let Some(run) = self.runs.get(&id)
        {
            self.say_lost(run);
        }
    }

    fn say_lost(&self, run: &Run) {
        tracing::warn!(run = %run.key, attempt = run.win.attempt, "lease lost: another instance may run this now");
        self.emit(Event::LeaseLost { run: run.key.clone(), attempt: run.win.attempt });
    }
}

/// What all handlers of an instance need. A task takes it as a whole: counting each part for each run costs more than
/// the rest of its start, since several threads do so at once.
pub(super) struct Home {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) state: Arc<StateMap>,
    pub(super) inputs: mpsc::UnboundedSender<Input>,
}

/// A handler that is about to start.
pub(super) struct Starting {
    run: u64,
    job: Arc<Job>,
    context: Context,
    span: tracing::Span,
}

/// Handlers that are about to start together.
struct Batch {
    home: Arc<Home>,
    starting: std::vec::IntoIter<Starting>,
}

impl Batch {
    async fn run(mut self) {
        for one in self.starting.by_ref() {
            tokio::spawn(one.run(Arc::clone(&self.home)));
        }
    }
}

impl Drop for Batch {
    /// A runtime that shuts down drops tasks before their first step.
    fn drop(&mut self) {
        for one in self.starting.by_ref() {
            drop(Report { run: one.run, home: Arc::clone(&self.home), said: false });
        }
    }
}

impl Starting {
    fn run(self, home: Arc<Home>) -> impl Future<Output = ()> + Send + 'static {
        let Self { run, job, context, span } = self;
        let mut report = Report { run, home, said: false };
        let run = async move {
            let mut ended = run_handler(&job, &context, &report.home).await;
            context.0.signals.blocking_ended().await;
            // As may a value that the job was given, if nobody else has it any more.
            if let Err(panic) = std::panic::catch_unwind(AssertUnwindSafe(|| drop((job, context)))) {
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
    let parts = RunParts { context, state: &home.state, data: job.data.as_ref() };
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
        if !self.said {
            self.say(Ended::Dropped);
        }
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
fn error_text(text: &str) -> String {
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
