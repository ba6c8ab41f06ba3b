//! Several instances of a program in one process, on one store and one clock that are moved by hand.
#![allow(clippy::expect_used, clippy::panic, reason = "a test that asks for what cannot be is told so by a panic")]

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::runtime::Runtime;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;

use super::clock::{WrongClock, settle};
use super::{Fault, FaultyBackend, ManualClock};
use crate::backend::{Backend as _, MemoryBackend};
use crate::clock::Clock as _;
use crate::error::Error;
use crate::event::Event;
use crate::run::{AttemptRecord, AttemptStatus, Record, RunKey};
use crate::scheduler::{Scheduler, SchedulerBuilder};
use crate::slot::JobName;

/// 2026-01-15T10:00:00Z, a Thursday.
const START: i64 = 1_768_471_200_000;
/// While a handler runs, time passes in steps no longer than this, so that its own timers are on time.
const STEP: Duration = Duration::from_millis(100);
/// What a call on an instance may take without time passing, in turns of its runtime.
const PATIENCE: usize = 1000;
/// How long an instance may take to stop, by the cluster's clock.
const LONGEST_STOP: Duration = Duration::from_secs(24 * 3600);

/// The store of a [`TestCluster`].
pub type TestStore = FaultyBackend<MemoryBackend>;

type SetUp = Box<dyn Fn(SchedulerBuilder<TestStore>) -> SchedulerBuilder<TestStore>>;

/// Several instances of a program in one process, on one [`MemoryBackend`] and one clock that stands still until it is
/// moved: a day of a job passes in milliseconds, and what happens to an instance is told, not waited for.
///
/// Each instance has a single-threaded runtime of its own, on which its engine and its handlers run, and only while
/// [`advance`](Self::advance) or [`on`](Self::on) says so. So one can be killed in the middle of a handler, or frozen
/// while the others go on. The timers of tokio in handlers follow the cluster's clock (to 100 ms). With one seed
/// everything happens in the same order each time.
///
/// It is for a plain `#[test]` function: it cannot be used inside a runtime.
///
/// ```
/// use std::time::Duration;
/// use anarchon::testing::TestCluster;
/// use anarchon::{Overlap, Reason};
///
/// let mut cluster = TestCluster::new(3, 7, |instance| instance.lease("15s"));
/// cluster.on_each(async |scheduler| {
///     let long = async || tokio::time::sleep(Duration::from_secs(60)).await;
///     scheduler.every("export", "1h", long).jitter("0s").max_attempts(2).overlap(Overlap::Skip).add().await
/// })?;
///
/// cluster.advance_to_next("export");
/// cluster.advance(Duration::from_secs(10));
/// let winner = cluster.running("export").expect("somebody runs it");
/// cluster.kill(winner);
/// cluster.advance(Duration::from_secs(24 * 3600));
///
/// cluster.assert_each_slot_done_once("export");
/// let attempts = cluster.attempts("export");
/// assert_eq!(attempts[1].reason, Reason::Takeover);
/// assert_eq!(attempts.len(), 26, "25 slots, one of them in two attempts");
/// # Ok::<(), anarchon::Error>(())
/// ```
pub struct TestCluster {
    clock: ManualClock,
    store: TestStore,
    seed: u64,
    set_up: SetUp,
    instances: Vec<Option<Instance>>,
}

impl std::fmt::Debug for TestCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let up: Vec<bool> = self.instances.iter().map(Option::is_some).collect();
        f.debug_struct("TestCluster").field("wall_ms", &self.clock.wall_ms()).field("up", &up).finish_non_exhaustive()
    }
}

struct Instance {
    runtime: Runtime,
    scheduler: Scheduler<TestStore>,
    client: TestStore,
    clock: WrongClock,
    events: Receiver<Event>,
    seen: Vec<Event>,
    running: HashSet<(RunKey, u32)>,
    frozen: bool,
    /// How far its runtime's own time is behind.
    behind: Duration,
}

impl TestCluster {
    /// `instances` instances, named `0`, `1` and so on, each built as `set_up` says: `.registered()` for the annotated
    /// jobs, `.state(…)`, leases and the like. The clock shows 2026-01-15T10:00:00Z.
    ///
    /// # Panics
    /// When an instance does not start, or inside a tokio runtime.
    pub fn new(
        instances: usize,
        seed: u64,
        set_up: impl Fn(SchedulerBuilder<TestStore>) -> SchedulerBuilder<TestStore> + 'static,
    ) -> Self {
        let clock = ManualClock::new(START);
        let store = FaultyBackend::new(MemoryBackend::with_clock(Arc::new(clock.clone())));
        let mut cluster = Self { clock, store, seed, set_up: Box::new(set_up), instances: Vec::new() };
        cluster.instances.resize_with(instances, || None);
        (0..instances).for_each(|instance| cluster.start(instance));
        cluster
    }

    /// The clock, for handlers that want to know the time. Only the cluster moves it.
    #[must_use]
    pub fn clock(&self) -> ManualClock {
        self.clock.clone()
    }

    /// Lets time pass for all instances that are up.
    pub fn advance(&mut self, by: Duration) {
        let end = self.clock.boot() + by;
        self.turn(Duration::ZERO);
        loop {
            let now = self.clock.boot();
            if now >= end {
                return;
            }
            let next = self.clock.next_wake(end).unwrap_or(end).max(now);
            let busy = self.instances.iter().flatten().any(|instance| !instance.running.is_empty());
            let next = if busy { next.min(now + STEP) } else { next };
            self.clock.move_to(next);
            self.turn(next - now);
        }
    }

    /// Lets time pass until the job's next slot has fallen due, as the first instance that is up and has the job sees it.
    /// Its jitter has not passed then.
    ///
    /// # Panics
    /// When no instance has such a job, or it has no next slot.
    pub fn advance_to_next(&mut self, job: &str) {
        let up: Vec<usize> = (0..self.instances.len()).filter(|i| self.is_awake(*i)).collect();
        let next = up.into_iter().find_map(|instance| {
            let jobs = self.on(instance, async |scheduler| scheduler.jobs().await).ok()?;
            jobs.into_iter().find(|info| info.name.as_str() == job)?.next
        });
        let next = next.unwrap_or_else(|| panic!("no instance has a next slot of `{job}`"));
        let wait = u64::try_from(next.ms() - self.clock.wall_ms()).unwrap_or(0);
        self.advance(Duration::from_millis(wait));
    }

    /// Calls an instance's scheduler: adds jobs, pauses one, runs one.
    ///
    /// # Panics
    /// When the instance is down or frozen, or the call waits for time to pass: what takes time is begun here and
    /// looked at after [`advance`](Self::advance).
    pub fn on<R>(&mut self, instance: usize, call: impl AsyncFnOnce(Scheduler<TestStore>) -> R) -> R {
        let up = self.awake(instance);
        let scheduler = up.scheduler.clone();
        let answer = up.runtime.block_on(async {
            let mut call = pin!(call(scheduler));
            for _ in 0..PATIENCE {
                if let Poll::Ready(answer) = futures_util::poll!(&mut call) {
                    settle().await;
                    return Some(answer);
                }
                tokio::task::yield_now().await;
            }
            None
        });
        up.note();
        answer.unwrap_or_else(|| {
            panic!("a call on instance {instance} waits for time to pass, which only `advance` lets it")
        })
    }

    /// The same on each instance that is up and not frozen.
    ///
    /// # Errors
    /// The first that a call returns.
    pub fn on_each<E>(&mut self, call: impl AsyncFn(Scheduler<TestStore>) -> Result<(), E>) -> Result<(), E> {
        let up: Vec<usize> = (0..self.instances.len()).filter(|i| self.is_awake(*i)).collect();
        up.into_iter().try_for_each(|instance| self.on(instance, &call))
    }

    /// Ends an instance as `kill -9` does: nothing of it takes another step, and the store is told nothing. (What its
    /// handlers drop is dropped, which a real kill would not do.)
    ///
    /// # Panics
    /// When it is down.
    pub fn kill(&mut self, instance: usize) {
        let up = self.take(instance);
        up.client.fail_all(Some(Fault::Swallow));
        up.runtime.shutdown_background();
    }

    /// Freezes an instance: its process gets no time while that of the others passes.
    ///
    /// # Panics
    /// When it is down.
    pub fn freeze(&mut self, instance: usize) {
        self.up(instance).frozen = true;
    }

    /// Lets a frozen instance go on, with all the time that has passed meanwhile at one stroke.
    ///
    /// # Panics
    /// When it is down.
    pub fn thaw(&mut self, instance: usize) {
        self.up(instance).frozen = false;
        self.turn(Duration::ZERO);
    }

    /// Cuts an instance off the store: its calls are never answered.
    ///
    /// # Panics
    /// When it is down.
    pub fn cut_off(&mut self, instance: usize) {
        self.up(instance).client.fail_all(Some(Fault::Swallow));
    }

    /// Ends what [`cut_off`](Self::cut_off) began.
    ///
    /// # Panics
    /// When it is down.
    pub fn heal(&mut self, instance: usize) {
        self.up(instance).client.fail_all(None);
    }

    /// The instance's own client of the store, to lose a single answer of it, or to fail a call of one's choice:
    /// `cluster.store(0).fail_next(Verb::Claim, Fault::LoseReply)`.
    ///
    /// # Panics
    /// When it is down.
    #[must_use]
    pub fn store(&mut self, instance: usize) -> TestStore {
        self.up(instance).client.clone()
    }

    /// Sets the wall clock of an instance's machine so many milliseconds ahead of the store's, or behind it if negative.
    /// At its start an instance's clock is right.
    ///
    /// # Panics
    /// When it is down.
    pub fn set_ahead(&mut self, instance: usize, ms: i64) {
        self.up(instance).clock.set_ahead(ms);
    }

    /// Stops an instance gracefully, while time passes for all until it has stopped.
    ///
    /// # Errors
    /// What its [`Scheduler::stop`] returns.
    ///
    /// # Panics
    /// When it is down or frozen, or does not stop within a day.
    pub fn stop(&mut self, instance: usize) -> Result<(), Error> {
        let up = self.awake(instance);
        let scheduler = up.scheduler.clone();
        let mut stopping = up.runtime.spawn(async move { scheduler.stop().await });
        let until = self.clock.boot() + LONGEST_STOP;
        let stopped = loop {
            self.turn(Duration::ZERO);
            if let Some(stopped) = (&mut stopping).now_or_never() {
                break stopped;
            }
            assert!(self.clock.boot() < until, "instance {instance} does not stop");
            self.advance(STEP);
        };
        self.take(instance).runtime.shutdown_background();
        stopped.unwrap_or_else(|error| panic!("instance {instance} could not stop: {error}"))
    }

    /// Starts an instance that was killed or stopped, as a new process. Jobs that were added to it are to be added again.
    ///
    /// # Panics
    /// When it is up, does not start, or inside a tokio runtime.
    pub fn start(&mut self, instance: usize) {
        assert!(
            tokio::runtime::Handle::try_current().is_err(),
            "a `TestCluster` has runtimes of its own: use it in a plain `#[test]` function"
        );
        let place = self.instances.get_mut(instance).unwrap_or_else(|| panic!("there is no instance {instance}"));
        assert!(place.is_none(), "instance {instance} is up");
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().expect("a runtime");
        let client = self.store.client();
        let clock = WrongClock::new(self.clock.clone());
        let seed = self.seed.wrapping_add(u64::try_from(instance).unwrap_or(0));
        let scheduler = Scheduler::builder(client.clone()).clock(Arc::new(clock.clone())).seed(seed);
        let scheduler = (self.set_up)(scheduler.on_callers_runtime().instance_id(instance.to_string()));
        let started = runtime.block_on(scheduler.start());
        let scheduler = started.unwrap_or_else(|error| panic!("instance {instance} does not start: {error}"));
        let events = scheduler.events();
        let (seen, running) = (Vec::new(), HashSet::new());
        let behind = Duration::ZERO;
        *place = Some(Instance { runtime, scheduler, client, clock, events, seen, running, frozen: false, behind });
    }

    /// The events of an instance since it was started or they were last taken, in their order.
    ///
    /// # Panics
    /// When it is down.
    pub fn events(&mut self, instance: usize) -> Vec<Event> {
        std::mem::take(&mut self.up(instance).seen)
    }

    /// Which instance runs the job now, as far as that instance knows: the first, if there are several.
    #[must_use]
    pub fn running(&self, job: &str) -> Option<usize> {
        let runs_it = |up: &Instance| up.running.iter().any(|(run, _)| run.job.as_str() == job);
        self.instances.iter().position(|instance| instance.as_ref().is_some_and(runs_it))
    }

    /// The job's history, newest first.
    ///
    /// # Panics
    /// When the name is none.
    #[must_use]
    pub fn history(&self, job: &str) -> Vec<Record> {
        let job = JobName::new(job).expect("a job's name");
        let records = self.store.client();
        let records = records.history(&job, u32::MAX).now_or_never().expect("the store answers at once");
        records.expect("the store answers")
    }

    /// The job's attempts, in the order in which they were claimed.
    #[must_use]
    pub fn attempts(&self, job: &str) -> Vec<AttemptRecord> {
        let attempt = |record: Record| match record {
            Record::Attempt(attempt) => Some(attempt),
            Record::Skipped(_) => None,
        };
        let mut attempts: Vec<_> = self.history(job).into_iter().filter_map(attempt).collect();
        attempts.sort_by_key(|attempt| attempt.fence);
        attempts
    }

    /// Asserts that history has runs of the job, and each of them that is not still under way is done, once.
    ///
    /// # Panics
    /// When it is not so.
    #[track_caller]
    pub fn assert_each_slot_done_once(&self, job: &str) {
        let attempts = self.attempts(job);
        assert!(!attempts.is_empty(), "`{job}` has not run at all");
        let all: HashSet<&RunKey> = attempts.iter().map(|attempt| &attempt.run).collect();
        for run in all {
            let its = |status| attempts.iter().filter(|a| a.run == *run && a.status == Some(status)).count();
            if its(AttemptStatus::Running) > 0 {
                continue;
            }
            let done = its(AttemptStatus::Done);
            assert_eq!(done, 1, "{run} is done {done} times: {attempts:#?}");
        }
    }

    /// Asserts that no two attempts of the job's slots were under way at once, by the store's clock.
    ///
    /// # Panics
    /// When it is not so.
    #[track_caller]
    pub fn assert_never_two_at_once(&self, job: &str) {
        let mut spans: Vec<_> = self.attempts(job).into_iter().filter(|attempt| attempt.run.manual.is_none()).collect();
        spans.sort_by_key(|attempt| (attempt.claimed_at, attempt.ended_at));
        for pair in spans.windows(2) {
            let [before, after] = pair else { continue };
            let over = before.ended_at.is_some_and(|end| end <= after.claimed_at);
            assert!(over, "`{job}` ran twice at once: {before:#?}\nand {after:#?}");
        }
    }

    /// Gives every instance that is not frozen the time that has passed, and lets it run until it is idle.
    fn turn(&mut self, passed: Duration) {
        for up in self.instances.iter_mut().flatten() {
            up.behind += passed;
            if !up.frozen {
                let behind = std::mem::take(&mut up.behind);
                up.runtime.block_on(async {
                    if !behind.is_zero() {
                        tokio::time::advance(behind).await;
                    }
                    settle().await;
                });
                up.note();
            }
        }
    }

    fn is_awake(&self, instance: usize) -> bool {
        self.instances.get(instance).and_then(Option::as_ref).is_some_and(|up| !up.frozen)
    }

    fn up(&mut self, instance: usize) -> &mut Instance {
        self.instances
            .get_mut(instance)
            .and_then(Option::as_mut)
            .unwrap_or_else(|| panic!("instance {instance} is down"))
    }

    fn awake(&mut self, instance: usize) -> &mut Instance {
        let up = self.up(instance);
        assert!(!up.frozen, "instance {instance} is frozen");
        up
    }

    fn take(&mut self, instance: usize) -> Instance {
        let place = self.instances.get_mut(instance).and_then(Option::take);
        place.unwrap_or_else(|| panic!("instance {instance} is down"))
    }
}

impl Drop for TestCluster {
    /// As if the machine lost its power.
    fn drop(&mut self) {
        for up in self.instances.drain(..).flatten() {
            up.runtime.shutdown_background();
        }
    }
}

impl Instance {
    /// Takes note of what has happened.
    fn note(&mut self) {
        loop {
            let event = match self.events.try_recv() {
                Ok(event) => event,
                Err(TryRecvError::Lagged(_)) => continue,
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            };
            match &event {
                Event::Started { run, attempt } => drop(self.running.insert((run.clone(), *attempt))),
                Event::Finished { run, attempt, .. }
                | Event::LeaseLost { run, attempt }
                | Event::HandedOver { run, attempt, .. } => drop(self.running.remove(&(run.clone(), *attempt))),
                _ => {}
            }
            self.seen.push(event);
        }
    }
}
