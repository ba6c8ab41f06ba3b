//! From a checked builder to a running engine: connect, compare clocks, register, and start the driver.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle as RuntimeHandle;
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use super::catch_up::complete;
use super::clocks::{Now, StoreClock};
use super::driver::{close, drive};
use super::engine::{Beginning, Command, Engine, Input};
use super::outlet::Outlet;
use super::random::Random;
use super::settings::{Placement, Settings};
use super::stop::Stopped;
use super::vitals::{Life, Vitals};
use crate::backend::{AT_ONCE, DynStore, ServerInfo};
use crate::clock::Clock;
use crate::error::{BackendError, BackendErrorKind, Error, Result};
use crate::event::Event;
use crate::extract::StateMap;
use crate::job::{Job, JobDefaults};
use crate::run::{Registered, Registration};
use crate::slot::InstanceId;

/// Events that a slow receiver may fall behind.
const EVENTS: usize = 4096;
/// How long connecting may take.
pub(super) const CONNECT: Duration = Duration::from_secs(30);
/// How long blocking calls of the store's driver may hold the end of our thread back.
const SHUT_DOWN: Duration = Duration::from_secs(1);
/// Readings of the store's clock at start; the one with the shortest round trip counts most.
const CLOCK_SAMPLES: usize = 3;

/// Everything a scheduler begins with.
pub(super) struct Parts {
    pub(super) store: Arc<dyn DynStore>,
    pub(super) state: Arc<StateMap>,
    pub(super) defaults: JobDefaults,
    pub(super) settings: Settings,
    pub(super) instance: InstanceId,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) random: Random,
    pub(super) handlers: RuntimeHandle,
    pub(super) jobs: Vec<Job>,
    /// Whether to do only what is asked: then the jobs are not registered either.
    pub(super) idle: bool,
}

/// What users' handles share.
pub(super) struct Handle {
    pub(super) store: Arc<dyn DynStore>,
    pub(super) instance: InstanceId,
    pub(super) defaults: JobDefaults,
    pub(super) state: Arc<StateMap>,
    pub(super) commands: Commands,
    pub(super) events: broadcast::Sender<Event>,
    pub(super) vitals: Arc<Vitals>,
    stopped: watch::Receiver<Option<Stopped>>,
}

/// The way to the engine.
pub(super) struct Commands(mpsc::UnboundedSender<Input>);

impl Commands {
    pub(super) fn send(&self, command: Command) -> Result<(), ()> {
        self.0.send(Input::Command(command)).map_err(|_| ())
    }
}

impl Handle {
    pub(super) async fn stop(&self) -> Result<()> {
        // An engine that is gone has stopped.
        let _ = self.commands.send(Command::Stop);
        let mut stopped = self.stopped.clone();
        let (jobs, waited) = match stopped.wait_for(Option::is_some).await {
            Ok(stopped) => stopped.clone().unwrap_or_default(),
            Err(_) => return Err(Error::Stopped),
        };
        if jobs.is_empty() { Ok(()) } else { Err(Error::StillRunning { jobs, waited }) }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let _ = self.commands.send(Command::Stop);
    }
}

/// Starts an engine; returns once it runs, or with what stood in its way.
pub(super) async fn launch(parts: Parts, placement: Placement) -> Result<Handle> {
    #[cfg(feature = "metrics")]
    super::meter::describe();
    let (commands, inputs) = mpsc::unbounded_channel();
    let (events, _) = broadcast::channel(EVENTS);
    let (tell_stopped, stopped) = watch::channel(None);
    let (tell_started, started) = oneshot::channel();
    let vitals = Arc::new(Vitals::new(Arc::clone(&parts.clock), parts.settings.lease));
    let (engine_life, outlet) = (Life(Arc::clone(&vitals)), Outlet::new(events.clone(), Arc::clone(&vitals)));
    let handle = Handle {
        store: Arc::clone(&parts.store),
        instance: parts.instance.clone(),
        defaults: parts.defaults.clone(),
        state: Arc::clone(&parts.state),
        commands: Commands(commands.clone()),
        events,
        vitals,
        stopped,
    };
    let life = async move {
        let (store, clock) = (Arc::clone(&parts.store), Arc::clone(&parts.clock));
        match begin(parts, commands, outlet).await {
            Ok(engine) => {
                let _ = tell_started.send(Ok(()));
                let stopped = drive(engine, inputs).await;
                engine_life.stopped();
                stopped
            }
            Err(error) => {
                close(&*clock, &*store).await;
                let _ = tell_started.send(Err(error));
                Stopped::default()
            }
        }
    };
    match placement {
        Placement::OwnThread => {
            let thread = std::thread::Builder::new().name("anarchon".to_owned());
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime =
                runtime.map_err(|source| Error::System { what: "the scheduler's runtime cannot start", source })?;
            let spawned = thread.spawn(move || {
                let ended = runtime.block_on(life);
                // Only when nothing of ours is alive any more has the scheduler stopped. A driver's blocking call, such
                // as a name look-up without an answer, is not waited for: nothing could end it.
                runtime.shutdown_timeout(SHUT_DOWN);
                let _ = tell_stopped.send(Some(ended));
            });
            spawned.map_err(|source| Error::System { what: "the scheduler's thread cannot start", source })?;
        }
        #[cfg(feature = "testing")]
        Placement::CallersRuntime => {
            tokio::spawn(async move {
                let ended = life.await;
                let _ = tell_stopped.send(Some(ended));
            });
        }
    }
    match started.await {
        Ok(Ok(())) => Ok(handle),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(Error::Stopped),
    }
}

async fn begin(parts: Parts, inputs: mpsc::UnboundedSender<Input>, outlet: Outlet) -> Result<Engine> {
    let Parts { store, state, settings, instance, clock, random, handlers, mut jobs, idle, .. } = parts;
    let info = in_time(&*clock, &*store, CONNECT, store.connect()).await?;
    if idle {
        tracing::debug!(backend = store.name(), server = %info.server, %instance, "connected");
    } else {
        say_start(&*store, &info, &instance, &jobs);
    }
    let mut store_clock = StoreClock::default();
    for _ in 0..CLOCK_SAMPLES {
        let sent = clock.boot();
        if let Some(ms) = in_time(&*clock, &*store, CONNECT, store.clock()).await? {
            store_clock.sample(ms, sent, clock.boot());
        }
    }
    let beginning = Beginning {
        store: Arc::clone(&store),
        settings: settings.clone(),
        instance,
        state,
        clock: Arc::clone(&clock),
        random,
        handlers,
        inputs,
        outlet,
        store_clock,
        idle,
    };
    let mut engine = Engine::new(beginning);
    jobs.iter_mut().for_each(|job| job.share_terms(&mut engine.terms));
    if idle {
        let now = engine.now();
        let known = Registered::new(engine.store_ms(now));
        for job in jobs {
            engine.insert(job, known.clone(), now);
        }
        return Ok(engine);
    }
    let registrations: Vec<Registration> = jobs.iter().map(|job| engine.registration(job)).collect();
    let mut floors: Vec<Registered> = Vec::with_capacity(jobs.len());
    for some in registrations.chunks(AT_ONCE) {
        let answer = in_time(&*clock, &*store, CONNECT, store.register(some, settings.forget_after)).await?;
        floors.extend(complete(store.name(), some.len(), answer)?.value);
    }
    let now = Now { boot: clock.boot(), wall_ms: clock.wall_ms() };
    let ids = jobs.into_iter().zip(floors).map(|(job, floor)| engine.insert(job, floor, now)).collect::<Vec<_>>();
    engine.read_active(Vec::new());
    engine.catch_up(ids, now);
    engine.note_turn(now);
    Ok(engine)
}

fn say_start(store: &dyn DynStore, info: &ServerInfo, instance: &InstanceId, jobs: &[Job]) {
    tracing::info!(
        backend = store.name(), server = %info.server, %instance, jobs = jobs.len(), "anarchon starts"
    );
    for warning in &info.warnings {
        tracing::warn!(backend = store.name(), "{warning}");
    }
    for job in jobs {
        tracing::info!(job = %job.name, schedule = %job.schedule.describe(), place = %job.place, "job");
    }
}

pub(super) async fn in_time<T>(
    clock: &dyn Clock,
    store: &dyn DynStore,
    limit: Duration,
    call: impl Future<Output = Result<T, BackendError>>,
) -> Result<T> {
    tokio::select! {
        biased;
        answer = call => Ok(answer?),
        () = clock.sleep_until(clock.boot() + limit) => {
            let limit = anarchon_schedule::interval::format(limit);
            let message = format!("no answer within {limit}");
            Err(BackendError::new(store.name(), BackendErrorKind::Unknown, message).into())
        }
    }
}
