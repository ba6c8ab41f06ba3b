//! The engine: all that one instance knows, and what it does next. It never waits: the [`driver`](super::driver) feeds
//! it time, answers of the store and ends of handlers, and it starts store calls and handlers.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::runtime::Handle as RuntimeHandle;
use tokio::sync::{mpsc, oneshot};

use super::JobInfo;
use super::backup::{Watched, Watching};
use super::claim::{Claim, Claims};
use super::clocks::{Now, StoreClock};
use super::due::Group;
use super::finish::Finishing;
use super::handler::{Ended, Home, Starting};
use super::ids::IdMap;
use super::jobs::Jobs;
use super::manual::{ManualRun, PendingManual};
use super::outlet::Outlet;
use super::random::Random;
use super::returns::OwedReturn;
use super::runner::Run;
use super::settings::Settings;
use super::stop::Stopping;
use super::timer::{DueSlots, Timer, Timers};
use super::upkeep::TOUCH_EVERY;
use super::vitals::Tally;
use crate::backend::DynStore;
use crate::clock::Clock;
use crate::error::{BackendError, BackendErrorKind, Error, Result};
use crate::extract::StateMap;
use crate::job::{Job, Terms};
use crate::run::{
    ActiveRun, BeatOutcome, ClaimOutcome, FinishOutcome, ManualOutcome, Pause, Record, Registered, Registration,
    ReleaseOutcome, RunClaim, RunKey, Timed,
};
use crate::slot::{InstanceId, JobName, Slot, Token};

/// A slot that is this late and has a later one due behind it was missed together with others.
pub(super) const COALESCE_AFTER: Duration = Duration::from_secs(5);
/// No sleep is longer: the clocks are read anew at least this often.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
pub(super) const CLOCK_EVERY: Duration = Duration::from_secs(30);

/// What reaches the engine from other threads.
pub(super) enum Input {
    Command(Command),
    /// The user's runtime has run a task for this group of due jobs.
    Probe(u64),
    /// A handler has ended, and all its blocking work.
    Ended(u64, Ended),
}

/// What users ask of a running scheduler.
pub(super) enum Command {
    Add { job: Box<Job>, reply: oneshot::Sender<Result<()>> },
    Remove { job: String, reply: oneshot::Sender<bool> },
    Jobs { reply: oneshot::Sender<Vec<JobInfo>> },
    RunNow { job: String, exclusive: bool, reply: oneshot::Sender<Result<ManualRun>> },
    History { job: JobName, limit: u32, reply: oneshot::Sender<Result<Vec<Record>>> },
    Active { job: JobName, reply: oneshot::Sender<Result<Vec<ActiveRun>>> },
    SetPaused { job: JobName, pause: Option<Pause>, reply: oneshot::Sender<Result<()>> },
    Paused { job: JobName, reply: oneshot::Sender<Result<Option<Pause>>> },
    Stop,
}

pub(super) type Answers<T> = Vec<Result<Timed<T>, BackendError>>;

/// What a finished store call brings.
pub(super) enum Reply {
    Claims {
        claims: Vec<Claim>,
        requests: Arc<Vec<RunClaim>>,
        sent: Duration,
        answers: Answers<ClaimOutcome>,
    },
    Beats {
        runs: Vec<(u64, Token)>,
        sent: Duration,
        answers: Answers<BeatOutcome>,
    },
    Finishes {
        runs: Vec<u64>,
        /// Whether the call was beside the usual ones.
        alone: bool,
        sent: Duration,
        answers: Answers<FinishOutcome>,
    },
    Releases {
        runs: Vec<u64>,
        /// Whether the call was beside the usual ones.
        alone: bool,
        sent: Duration,
        answers: Answers<ReleaseOutcome>,
    },
    Returns {
        tokens: Vec<Token>,
        sent: Duration,
        answers: Answers<ReleaseOutcome>,
    },
    Active {
        asked: Vec<JobName>,
        sent: Duration,
        answer: Result<Timed<Vec<ActiveRun>>, BackendError>,
    },
    Registered {
        sent: Duration,
        jobs: Vec<Adding>,
        answer: Result<Timed<Vec<Registered>>, BackendError>,
    },
    Touched {
        jobs: Vec<JobName>,
        sent: Duration,
        answer: Result<Timed<Vec<Registered>>, BackendError>,
    },
    Manual {
        id: u64,
        sent: Duration,
        answer: Result<Timed<ManualOutcome>, BackendError>,
    },
    Clock {
        sent: Duration,
        answer: Result<Option<i64>, BackendError>,
    },
    Trimmed {
        answer: Result<(), BackendError>,
    },
    /// A user's question was answered past the engine.
    Asked,
}

/// A job that waits to be registered.
pub(super) struct Adding {
    pub(super) job: Box<Job>,
    pub(super) reply: oneshot::Sender<Result<()>>,
    /// Registered alone, since a call with it was refused.
    pub(super) alone: bool,
}

pub(super) struct Engine {
    pub(super) store: Arc<dyn DynStore>,
    pub(super) leases: bool,
    pub(super) settings: Settings,
    pub(super) instance: InstanceId,
    pub(super) home: Arc<Home>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) random: Random,
    pub(super) handlers: RuntimeHandle,
    pub(super) inputs: mpsc::UnboundedSender<Input>,
    pub(super) outlet: Outlet,

    pub(super) calls: FuturesUnordered<BoxFuture<'static, Reply>>,
    pub(super) store_clock: StoreClock,
    pub(super) due: DueSlots,
    pub(super) timers: Timers,
    pub(super) jobs: Jobs,
    /// What the next job may share with the one before.
    pub(super) terms: Option<Arc<Terms>>,
    pub(super) adding: VecDeque<Adding>,
    /// The jobs of the registration under way; `false` once one was removed meanwhile.
    pub(super) registering: Option<HashMap<JobName, bool>>,

    pub(super) next_id: u64,
    pub(super) groups: IdMap<Group>,
    pub(super) claims: Claims,
    pub(super) owed: BTreeMap<Token, OwedReturn>,
    pub(super) runs: BTreeMap<u64, Box<Run>>,
    /// Handlers to be started once the answer that won them has been read to its end.
    pub(super) starting: Vec<Starting>,
    pub(super) finishing: Finishing,
    pub(super) tally: Tally,
    pub(super) watching: Watching,
    pub(super) watched: BTreeMap<RunKey, Watched>,
    pub(super) manual: BTreeMap<u64, PendingManual>,
    pub(super) to_trim: HashSet<JobName>,
    pub(super) touching: VecDeque<JobName>,
    pub(super) beating: bool,
    pub(super) beating_again: bool,
    pub(super) fence_at: Option<Duration>,
    pub(super) timeout_at: Option<Duration>,
    /// Since when, since boot, the store has not answered.
    pub(super) trouble: Option<Duration>,
    /// When, since boot, it last answered.
    pub(super) answered: Duration,
    /// When everything was last read again, and when it is to be.
    pub(super) resynced: Option<Duration>,
    pub(super) resync_at: Option<Duration>,
    pub(super) skew_said: i64,
    pub(super) mismatches: HashSet<(JobName, String)>,
    pub(super) stopping: Option<Stopping>,
    /// Does only what it is asked to: no slot is claimed, and no run taken over.
    pub(super) idle: bool,
    pub(super) planned: Duration,
    pub(super) last: Now,
    pub(super) clock_asked: bool,
}

/// What an engine begins with.
pub(super) struct Beginning {
    pub(super) store: Arc<dyn DynStore>,
    pub(super) settings: Settings,
    pub(super) instance: InstanceId,
    pub(super) state: Arc<StateMap>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) random: Random,
    pub(super) handlers: RuntimeHandle,
    pub(super) inputs: mpsc::UnboundedSender<Input>,
    pub(super) outlet: Outlet,
    pub(super) store_clock: StoreClock,
    pub(super) idle: bool,
}

impl Engine {
    pub(super) fn new(beginning: Beginning) -> Self {
        let Beginning { store, settings, instance, state, clock, random, handlers, inputs, outlet, store_clock, idle } =
            beginning;
        let now = Now { boot: clock.boot(), wall_ms: clock.wall_ms() };
        let mut engine = Self {
            leases: store.leases(),
            store: Arc::clone(&store),
            settings,
            instance,
            home: Arc::new(Home { clock: Arc::clone(&clock), state, store, inputs: inputs.clone() }),
            clock,
            random,
            handlers,
            inputs,
            outlet,
            calls: FuturesUnordered::new(),
            store_clock,
            due: DueSlots::default(),
            timers: Timers::default(),
            jobs: Jobs::default(),
            terms: None,
            adding: VecDeque::new(),
            registering: None,
            next_id: 0,
            groups: IdMap::default(),
            claims: Claims::default(),
            owed: BTreeMap::new(),
            runs: BTreeMap::new(),
            starting: Vec::new(),
            finishing: Finishing::default(),
            tally: Tally::default(),
            watching: Watching::default(),
            watched: BTreeMap::new(),
            manual: BTreeMap::new(),
            to_trim: HashSet::new(),
            touching: VecDeque::new(),
            beating: false,
            beating_again: false,
            fence_at: None,
            timeout_at: None,
            trouble: None,
            answered: now.boot,
            resynced: None,
            resync_at: None,
            skew_said: 0,
            mismatches: HashSet::new(),
            stopping: None,
            idle,
            planned: now.boot,
            last: now,
            clock_asked: false,
        };
        engine.timers.set(now.boot + CLOCK_EVERY, Timer::Clock);
        if !idle {
            engine.timers.set(now.boot + TOUCH_EVERY, Timer::Touch);
        }
        engine.check_skew(now);
        engine
    }

    pub(super) fn now(&self) -> Now {
        Now { boot: self.clock.boot(), wall_ms: self.clock.wall_ms() }
    }

    pub(super) fn store_ms(&self, now: Now) -> i64 {
        self.store_clock.ms(now)
    }

    pub(super) fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Does everything whose time has come.
    pub(super) fn advance(&mut self) {
        let now = self.now();
        self.outlet.look_who_listens();
        self.start_handlers();
        self.notice_jumps(now);
        while let Some(timer) = self.timers.pop(now.boot) {
            self.timer(timer, now);
        }
        if self.stopping.is_none() && !self.idle {
            self.due_slots(now);
        }
        self.send_claims(now);
        self.check_stopped(now);
        self.last = now;
        self.note_turn(now);
    }

    /// When to look again at the latest.
    pub(super) fn next_wake(&mut self) -> Duration {
        let now = self.last;
        let mut wake = now.boot + LONGEST_SLEEP;
        if let Some(first) = self.timers.first() {
            wake = wake.min(first);
        }
        // A stopping instance, or an idle one, claims no slots: one that is due would wake it at once, again and again.
        if let (Some(first), None, false) = (self.due.first(), &self.stopping, self.idle) {
            wake = wake.min(self.store_clock.boot_at(first, now));
        }
        self.planned = wake;
        wake
    }

    fn timer(&mut self, timer: Timer, now: Now) {
        match timer {
            Timer::Group(id) => self.group_waited(id),
            Timer::Claim(id) => self.claim_again(id),
            Timer::Heartbeat => self.heartbeat(now),
            Timer::Beat => self.beat_unrenewed(now),
            Timer::Fence => self.check_fences(now),
            Timer::Timeout => self.check_timeouts(now),
            Timer::Drop(run) => self.drop_handler(run),
            Timer::StopWait(run) => self.stop_waited(run, now),
            Timer::GiveUp(run) => self.give_up_on(run, now),
            Timer::Finish => self.send_endings(now),
            Timer::Ending(run) => self.say_last(run, now),
            Timer::Watch => self.watch(now),
            Timer::Takeover => self.take_over(now),
            Timer::Return => self.send_returns(now),
            Timer::Manual(id) => self.send_manual(id, now),
            Timer::Trim => self.trim(now),
            Timer::Touch => self.touch(now),
            Timer::Clock => self.ask_clock(now),
            Timer::Resync => self.resync(now),
        }
    }

    pub(super) fn input(&mut self, input: Input) {
        self.outlet.look_who_listens();
        match input {
            Input::Command(command) => self.command(command),
            Input::Probe(group) => self.probed(group),
            Input::Ended(run, ended) => {
                let now = self.now();
                self.handler_ended(run, ended, now);
            }
        }
    }

    pub(super) fn reply(&mut self, reply: Reply) {
        let now = self.now();
        self.outlet.look_who_listens();
        match reply {
            Reply::Claims { claims, requests, sent, answers } => {
                self.claims_answered(claims, requests, sent, answers, now);
            }
            Reply::Beats { runs, sent, answers } => self.beats_answered(runs, sent, answers, now),
            Reply::Finishes { runs, alone, sent, answers } => self.finishes_answered(runs, alone, sent, answers, now),
            Reply::Releases { runs, alone, sent, answers } => self.releases_answered(runs, alone, sent, answers, now),
            Reply::Returns { tokens, sent, answers } => self.returns_answered(tokens, sent, answers, now),
            Reply::Active { asked, sent, answer } => self.active_read(&asked, sent, answer, now),
            Reply::Registered { sent, jobs, answer } => self.registered(sent, jobs, answer, now),
            Reply::Manual { id, sent, answer } => self.manual_answered(id, sent, answer, now),
            Reply::Clock { sent, answer } => {
                self.clock_asked = false;
                match answer {
                    Ok(store_ms) => self.store_said(store_ms, sent, now),
                    Err(error) => self.store_failed(&error, now),
                }
            }
            Reply::Touched { jobs, sent, answer } => self.touched(jobs, sent, answer, now),
            Reply::Trimmed { answer } => match answer {
                Ok(()) => self.store_answered(now),
                Err(error) => self.store_failed(&error, now),
            },
            Reply::Asked => {}
        }
    }

    fn command(&mut self, command: Command) {
        let now = self.now();
        match command {
            Command::Stop => self.begin_stop(now),
            Command::Jobs { reply } => {
                let _ = reply.send(self.list_jobs());
            }
            _ if self.stopping.is_some() => {} // dropping the reply says that the scheduler has stopped
            Command::Add { job, reply } => self.add(*job, reply),
            Command::Remove { job, reply } => {
                let _ = reply.send(self.remove(&job));
            }
            Command::RunNow { job, exclusive, reply } => self.run_now(job, exclusive, reply, now),
            Command::History { job, limit, reply } => {
                self.ask(reply, async move |store| store.history(&job, limit).await);
            }
            Command::Active { job, reply } => self.ask(reply, async move |store| {
                let jobs = [job];
                store.active(&jobs).await.map(|active| active.value)
            }),
            Command::SetPaused { job, pause, reply } => {
                self.ask(reply, async move |store| store.set_paused(&job, pause.as_ref()).await);
            }
            Command::Paused { job, reply } => self.ask(reply, async move |store| store.paused(&job).await),
        }
    }

    /// Answers a user's question by a store call, past the engine.
    fn ask<T, F>(&self, reply: oneshot::Sender<Result<T>>, call: impl FnOnce(Arc<dyn DynStore>) -> F)
    where
        T: Send + 'static,
        F: Future<Output = Result<T, BackendError>> + Send + 'static,
    {
        let call = self.with_deadline(call(Arc::clone(&self.store)));
        self.calls.push(Box::pin(async move {
            let _ = reply.send(call.await.map_err(Error::Backend));
            Reply::Asked
        }));
    }

    /// A store call that fails, its effect unknown, when no answer has come in time.
    pub(super) fn with_deadline<T: Send>(
        &self,
        call: impl Future<Output = Result<T, BackendError>> + Send + 'static,
    ) -> impl Future<Output = Result<T, BackendError>> + Send + 'static {
        let deadline = self.call_time();
        let late = self.clock.sleep_until(self.clock.boot() + deadline);
        let name = Arc::clone(&self.store);
        // A bug in a store's driver must not take the engine, and with it every lease, along.
        let call = AssertUnwindSafe(call).catch_unwind();
        async move {
            tokio::select! {
                biased;
                answer = call => answer.unwrap_or_else(|_| {
                    Err(BackendError::new(name.name(), BackendErrorKind::Unknown, "its driver panicked"))
                }),
                () = late => Err(no_answer(name.name(), deadline)),
            }
        }
    }

    /// The same for a call about many things.
    pub(super) fn many_with_deadline<T: Send>(
        &self,
        count: usize,
        call: impl Future<Output = Answers<T>> + Send + 'static,
    ) -> impl Future<Output = Answers<T>> + Send + 'static {
        let call = self.with_deadline(async move { Ok(call.await) });
        let name = Arc::clone(&self.store);
        async move {
            match call.await {
                Ok(answers) if answers.len() == count => answers,
                Ok(_) => {
                    let wrong = || BackendError::new(name.name(), BackendErrorKind::Unknown, "it gave too few answers");
                    (0..count).map(|_| Err(wrong())).collect()
                }
                Err(error) => (0..count).map(|_| Err(error.to_shared())).collect(),
            }
        }
    }

    fn list_jobs(&self) -> Vec<JobInfo> {
        let states = self.jobs.sorted_ids().into_iter().filter_map(|id| self.jobs.get(id));
        states
            .map(|state| JobInfo {
                name: state.job.name.clone(),
                schedule: state.job.schedule.describe(),
                next: state.next.map(Slot::from_ms),
            })
            .collect()
    }

    pub(super) fn registration(&self, job: &Job) -> Registration {
        Registration {
            retention: job.retention,
            ..Registration::new(
                job.name.clone(),
                Arc::clone(&job.identity),
                Arc::clone(&job.fingerprint),
                self.instance.clone(),
            )
        }
    }
}

pub(super) fn no_answer(backend: &str, deadline: Duration) -> BackendError {
    let waited = anarchon_schedule::interval::format(deadline);
    BackendError::new(backend, BackendErrorKind::Unknown, format!("no answer within {waited}"))
}
