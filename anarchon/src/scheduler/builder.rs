//! Everything that can be said about a scheduler before it starts.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use anarchon_schedule::zone;

#[cfg(feature = "cli")]
use super::look::Look;
use super::settings::{Placement, Settings};
use super::{Scheduler, launch};
use crate::backend::{AnyStrength, DynStore};
use crate::clock::{Clock, SystemClock};
use crate::duration::IntoDuration;
use crate::error::{Error, Result};
use crate::extract::StateMap;
use crate::job::{Job, JobDefaults, JobSpec};
use crate::option::{On, Supports, SupportsHistoryTtl, SupportsLease, marker};
use crate::registry;
use crate::slot::InstanceId;

/// Builds a [`Scheduler`]. The options about leases exist only on a backend that has them.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), anarchon::Error> {
/// use anarchon::{MemoryBackend, Scheduler};
///
/// let scheduler = Scheduler::builder(MemoryBackend::new())
///     .timezone("Europe/Paris")
///     .lease("10s")
///     .start()
///     .await?;
/// scheduler.stop().await?;
///
/// // What is out of bounds is an error of start(), and nothing has begun.
/// let refused = Scheduler::builder(MemoryBackend::new()).lease("10s").heartbeat("9s").start().await;
/// assert!(refused.is_err());
/// # Ok(()) }
/// ```
#[must_use = "a builder does nothing before `start()`"]
pub struct SchedulerBuilder<B> {
    store: Arc<dyn DynStore>,
    state: StateMap,
    registered: bool,
    defaults: JobDefaults,
    settings: Settings,
    instance_id: Option<String>,
    clock: Arc<dyn Clock>,
    seed: Option<u64>,
    placement: Placement,
    handlers: Option<tokio::runtime::Handle>,
    fault: Option<Error>,
    backend: PhantomData<fn() -> B>,
}

impl<B> fmt::Debug for SchedulerBuilder<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SchedulerBuilder").field("backend", &self.store.name()).finish_non_exhaustive()
    }
}

impl<B: AnyStrength> SchedulerBuilder<B> {
    pub(super) fn new(backend: B) -> Self {
        Self {
            store: backend.erase(),
            state: StateMap::default(),
            registered: false,
            defaults: JobDefaults::default(),
            settings: Settings::default(),
            instance_id: None,
            clock: Arc::new(SystemClock),
            seed: None,
            placement: Placement::OwnThread,
            handlers: None,
            fault: None,
            backend: PhantomData,
        }
    }
}

impl<B> On<B> for SchedulerBuilder<B> {}

impl<B> SchedulerBuilder<B> {
    /// Gives a value to all handlers that take a `State<T>` of its type; a second value of one type replaces the first.
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.state.insert(value);
        self
    }

    /// Runs every `#[anarchon::job]` that is linked into the program. Default: none of them.
    pub fn registered(mut self) -> Self {
        self.registered = true;
        self
    }

    /// The zone of jobs that name none: an IANA name. Default: UTC; the host's zone never matters.
    pub fn timezone(mut self, name: &str) -> Self {
        match zone::parse(name) {
            Ok(zone) => self.defaults.timezone = zone,
            Err(error) => self.refuse("timezone", format!("= {name:?}: {error}")),
        }
        self
    }

    /// The longest random wait before a claim, for jobs that set none; at most a tenth of the gap to the next slot.
    /// Default: 200 ms.
    pub fn jitter(mut self, jitter: impl IntoDuration) -> Self {
        self.defaults.jitter = self.duration("jitter", jitter);
        self
    }

    /// How late a slot may still be claimed, for jobs that do not say. Default: 60 s.
    pub fn max_late(mut self, max_late: impl IntoDuration) -> Self {
        self.defaults.max_late = self.duration("max_late", max_late);
        self
    }

    /// When a run is cancelled, for jobs that do not say. Default: never.
    pub fn timeout(mut self, timeout: impl IntoDuration) -> Self {
        self.defaults.timeout = self.duration("timeout", timeout);
        self
    }

    /// How many started attempts are kept per job, for jobs that do not say. Default: 100.
    pub fn history_size(mut self, attempts: u32) -> Self {
        self.defaults.history_size = Some(attempts);
        self
    }

    /// How long history is kept, for jobs that do not say. Default: as long as `history_size` allows.
    pub fn history_ttl<T>(mut self, ttl: impl IntoDuration) -> Self
    where
        Self: On<T>,
        T: SupportsHistoryTtl,
    {
        self.defaults.history_ttl = self.duration("history_ttl", ttl);
        self
    }

    /// How long a runner is believed to be alive after its last heartbeat: at least 1 s. Default: 15 s.
    pub fn lease<T>(mut self, lease: impl IntoDuration) -> Self
    where
        Self: On<T>,
        T: SupportsLease,
    {
        self.settings.lease = self.duration("lease", lease).unwrap_or(self.settings.lease);
        self
    }

    /// How often a runner renews its leases: at most a third of `lease`. Default: a third.
    pub fn heartbeat<T>(mut self, heartbeat: impl IntoDuration) -> Self
    where
        Self: On<T>,
        T: Supports<marker::heartbeat>,
    {
        self.settings.heartbeat = self.duration("heartbeat", heartbeat);
        self
    }

    /// How often a backup looks after the runs it watches. Default: 2 s.
    pub fn watch<T>(mut self, watch: impl IntoDuration) -> Self
    where
        Self: On<T>,
        T: Supports<marker::watch>,
    {
        self.settings.watch = self.duration("watch", watch).unwrap_or(self.settings.watch);
        self
    }

    /// How long `stop()` and a time-out let handlers react before they are dropped. Default: 5 s.
    pub fn stop_grace(mut self, grace: impl IntoDuration) -> Self {
        self.settings.stop_grace = self.duration("stop_grace", grace).unwrap_or(self.settings.stop_grace);
        self
    }

    /// After how long a job that no instance has registered is removed from the store. Default: 30 days.
    pub fn forget_after(mut self, after: impl IntoDuration) -> Self {
        self.settings.forget_after = self.duration("forget_after", after).unwrap_or(self.settings.forget_after);
        self
    }

    /// The name of this instance. Default: `<host>-<pid>-<8 random hex digits>`.
    pub fn instance_id(mut self, id: impl Into<String>) -> Self {
        self.instance_id = Some(id.into());
        self
    }

    /// Takes the time from `clock` instead of the machine.
    #[cfg(feature = "testing")]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Draws all random numbers from one seed.
    #[cfg(feature = "testing")]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Runs the engine as a task of the caller's runtime instead of on a thread of its own.
    #[cfg(feature = "testing")]
    pub fn on_callers_runtime(mut self) -> Self {
        self.placement = Placement::CallersRuntime;
        self
    }

    /// Runs handlers on another runtime than the caller's.
    #[cfg(feature = "testing")]
    pub fn handlers_on(mut self, runtime: tokio::runtime::Handle) -> Self {
        self.handlers = Some(runtime);
        self
    }

    /// Checks everything, connects to the store, registers the jobs, and starts.
    ///
    /// Must be called inside a tokio runtime, on which the handlers will run. Everything else (timers, claims,
    /// heartbeats) runs on a thread of the scheduler's own, so that a handler which blocks its thread costs no lease.
    ///
    /// # Errors
    /// When an option is out of bounds, two jobs have one name, a job needs what the store cannot honour or a value
    /// that was not given, no tokio runtime is there, or the store cannot be reached. Nothing has begun then.
    pub async fn start(self) -> Result<Scheduler<B>> {
        let (parts, placement) = self.checked(false)?;
        launch::launch(parts, placement).await.map(Scheduler::new)
    }

    /// Starts an instance that does only what it is asked to: it registers no job, claims no slot and takes no run over.
    #[cfg(feature = "cli")]
    pub(crate) async fn start_idle(self) -> Result<Scheduler<B>> {
        let (parts, placement) = self.checked(true)?;
        launch::launch(parts, placement).await.map(Scheduler::new)
    }

    /// Connects to read and nothing else.
    #[cfg(feature = "cli")]
    pub(crate) async fn look(self) -> Result<Look> {
        let (parts, _) = self.checked(true)?;
        Look::new(parts).await
    }

    fn checked(self, idle: bool) -> Result<(launch::Parts, Placement)> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let current = tokio::runtime::Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let handlers = self.handlers.unwrap_or(current);
        let settings = self.settings.checked()?;
        let mut random = super::random::Random::new(self.seed, self.instance_id.as_deref());
        let instance = match self.instance_id {
            Some(id) => InstanceId::new(id)?,
            None => InstanceId::generate(random.next_u32()),
        };
        let jobs = match self.registered {
            true => registered(&self.defaults, &self.state, &*self.store)?,
            false => Vec::new(),
        };
        let parts = launch::Parts {
            store: self.store,
            state: Arc::new(self.state),
            defaults: self.defaults,
            settings,
            instance,
            clock: self.clock,
            random,
            handlers,
            jobs,
            idle,
        };
        Ok((parts, self.placement))
    }

    fn duration(&mut self, option: &'static str, value: impl IntoDuration) -> Option<Duration> {
        match value.into_duration() {
            Ok(duration) => Some(duration),
            Err((text, error)) => {
                self.refuse(option, format!("= {text:?}: {error}"));
                None
            }
        }
    }

    fn refuse(&mut self, option: &'static str, reason: String) {
        self.fault.get_or_insert(Error::SchedulerOption { option, reason });
    }
}

/// The annotated jobs, checked; two of one name are refused, naming both places.
fn registered(defaults: &JobDefaults, state: &StateMap, store: &dyn DynStore) -> Result<Vec<Job>> {
    let entries = registry::entries();
    if entries.is_empty() {
        return Err(Error::NoJobs);
    }
    let mut jobs: Vec<Job> = Vec::with_capacity(entries.len());
    for entry in entries {
        let job = Job::new(JobSpec::from(entry), defaults, state, store)?;
        if let Some(before) = jobs.last().filter(|before| before.name == job.name) {
            return Err(Error::DuplicateJob { job: job.name, first: before.place, second: job.place });
        }
        jobs.push(job);
    }
    Ok(jobs)
}
