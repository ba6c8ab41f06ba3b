//! The scheduler: one handle for users ([`Scheduler`]), and behind it one engine per instance.
//!
//! `builder` and `add` check what users say; `launch` connects and starts the `driver`, which feeds the `engine` with
//! time, answers of the store and ends of handlers. The engine's files hold one thing each that can happen to a run.

mod add;
mod backup;
mod builder;
mod catch_up;
mod claim;
mod clocks;
mod driver;
mod due;
mod engine;
pub(crate) mod entry;
mod finish;
mod handler;
mod heartbeat;
mod ids;
mod jobs;
mod launch;
#[cfg(feature = "cli")]
pub(crate) mod look;
mod manual;
#[cfg(feature = "metrics")]
mod meter;
mod outlet;
mod random;
mod returns;
mod runner;
mod settings;
mod stop;
mod timer;
mod trouble;
mod upkeep;
mod vitals;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use tokio::sync::{broadcast, oneshot};

pub use add::{JobBuilder, kind};
pub use builder::SchedulerBuilder;
pub use manual::ManualRun;

use self::engine::Command;
use self::launch::Handle;
use crate::backend::AnyStrength;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::extract::{Handler, TakenOn};
use crate::health::Health;
use crate::option::On;
use crate::run::{ActiveRun, AttemptRecord, Pause, Record};
use crate::slot::{InstanceId, JobName, Slot};

/// One running instance. Cheap to clone; all clones are one scheduler, and when the last one is dropped it stops in
/// the background.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), anarchon::Error> {
/// use anarchon::{Context, MemoryBackend, Scheduler};
///
/// async fn sync(ctx: Context) {
///     println!("{} attempt {}", ctx.slot(), ctx.attempt());
/// }
///
/// let scheduler = Scheduler::builder(MemoryBackend::new()).start().await?;
/// scheduler.every("sync", "10s", sync).jitter("1s").add().await?;
///
/// scheduler.run_now("sync").await?.finished().await?;
/// assert_eq!(scheduler.history("sync", 10).await?.len(), 1);
/// assert!(scheduler.run_now("no such job").await.is_err());
///
/// scheduler.stop().await?;
/// # Ok(()) }
/// ```
pub struct Scheduler<B> {
    handle: Arc<Handle>,
    backend: PhantomData<fn() -> B>,
}

impl<B> Clone for Scheduler<B> {
    fn clone(&self) -> Self {
        Self { handle: Arc::clone(&self.handle), backend: PhantomData }
    }
}

impl<B> fmt::Debug for Scheduler<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler")
            .field("backend", &self.handle.store.name())
            .field("instance", &self.handle.instance)
            .finish_non_exhaustive()
    }
}

/// What an instance knows about one of its jobs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct JobInfo {
    /// The job's name.
    pub name: JobName,
    /// Its schedule in words.
    pub schedule: String,
    /// The next slot, if there is one.
    pub next: Option<Slot>,
}

impl<B> On<B> for Scheduler<B> {}

impl<B: AnyStrength> Scheduler<B> {
    /// Begins to build a scheduler on `backend`.
    pub fn builder(backend: B) -> SchedulerBuilder<B> {
        SchedulerBuilder::new(backend)
    }
}

impl<B> Scheduler<B> {
    fn new(handle: Handle) -> Self {
        Self { handle: Arc::new(handle), backend: PhantomData }
    }

    /// The name of the store's backend, as in `sqlite`.
    #[must_use]
    pub fn backend_name(&self) -> &str {
        self.handle.store.name()
    }

    /// This instance's id.
    #[must_use]
    pub fn instance_id(&self) -> &InstanceId {
        &self.handle.instance
    }

    /// The events of this instance from now on. A receiver that falls more than 4,096 events behind loses the oldest.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.handle.events.subscribe()
    }

    /// How this instance is doing, for probes and dashboards: at once, without a call of the store, also after `stop()`.
    #[must_use]
    pub fn health(&self) -> Health {
        self.handle.vitals.health()
    }

    /// A job on a grid of `interval` from the Unix epoch, so that every instance computes the same slots; `"7d"` falls
    /// on Thursdays, which `.offset(…)` shifts. Ends with `.add().await`.
    #[track_caller]
    pub fn every<Args, H: Handler<Args>, T>(
        &self,
        name: impl Into<String>,
        interval: impl crate::duration::IntoDuration,
        handler: H,
    ) -> JobBuilder<'_, B, kind::Every>
    where
        Self: On<T>,
        Args: TakenOn<T>,
    {
        JobBuilder::every(self, name.into(), interval, crate::extract::BoxHandler::new(handler))
    }

    /// A job by a cron line of 5 fields, or 6 with seconds first. Ends with `.add().await`.
    #[track_caller]
    pub fn cron<Args, H: Handler<Args>, T>(
        &self,
        name: impl Into<String>,
        expression: impl Into<String>,
        handler: H,
    ) -> JobBuilder<'_, B, kind::Cron>
    where
        Self: On<T>,
        Args: TakenOn<T>,
    {
        JobBuilder::cron(self, name.into(), expression.into(), crate::extract::BoxHandler::new(handler))
    }

    /// A job that runs once: `time` is a local time such as `"2027-01-01T00:00:00"` in the job's zone, or one with an
    /// offset of its own. Ends with `.add().await`.
    #[track_caller]
    pub fn at<Args, H: Handler<Args>, T>(
        &self,
        name: impl Into<String>,
        time: impl Into<String>,
        handler: H,
    ) -> JobBuilder<'_, B, kind::At>
    where
        Self: On<T>,
        Args: TakenOn<T>,
    {
        JobBuilder::at(self, name.into(), time.into(), crate::extract::BoxHandler::new(handler))
    }

    /// Stops claiming slots of a job on this instance. A run that goes on here is let end; nothing is deleted from the
    /// store. Returns whether this instance had the job, or was just adding it.
    ///
    /// # Errors
    /// [`Error::Stopped`] after `stop()`.
    pub async fn remove(&self, job: &str) -> Result<bool> {
        let job = job.to_owned();
        self.ask(|reply| Command::Remove { job, reply }).await
    }

    /// The jobs of this instance, sorted by name.
    ///
    /// # Errors
    /// [`Error::Stopped`] after `stop()`.
    pub async fn jobs(&self) -> Result<Vec<JobInfo>> {
        self.ask(|reply| Command::Jobs { reply }).await
    }

    /// Runs a job here and now, whatever its schedule; allowed on a paused job. The run is a record of its own and
    /// touches no slot. It has one attempt, is never taken over, and does not mind other runs of the job.
    ///
    /// # Errors
    /// [`Error::UnknownJob`], [`Error::Stopped`], or [`Error::Backend`] when the store fails.
    pub async fn run_now(&self, job: &str) -> Result<ManualRun> {
        let job = job.to_owned();
        self.ask(|reply| Command::RunNow { job, exclusive: false, reply }).await?
    }

    /// Like [`run_now`](Self::run_now), but refused while another run of the job is live; and while it runs, slots of
    /// an `overlap = "skip"` job are skipped.
    ///
    /// # Errors
    /// [`Error::AlreadyRunning`] while another run is live; [`Error::NeedsLeases`] on a claim-only store; otherwise as
    /// [`run_now`](Self::run_now).
    pub async fn run_now_exclusive(&self, job: &str) -> Result<ManualRun> {
        self.needs_leases("run_now_exclusive")?;
        let job = job.to_owned();
        self.ask(|reply| Command::RunNow { job, exclusive: true, reply }).await?
    }

    /// The latest records of a job from all instances, newest first. The job need not be one of this instance's.
    ///
    /// # Errors
    /// [`Error::JobName`], [`Error::Stopped`], or [`Error::Backend`] when the store fails.
    pub async fn history(&self, job: &str, limit: u32) -> Result<Vec<Record>> {
        let job = JobName::new(job)?;
        self.ask(|reply| Command::History { job, limit, reply }).await?
    }

    /// The latest started attempt of a job, from any instance.
    ///
    /// # Errors
    /// As [`history`](Self::history).
    pub async fn last_run(&self, job: &str) -> Result<Option<AttemptRecord>> {
        // Usually an attempt is among the newest records, but skips may have put any number before it.
        let mut limit = 16;
        loop {
            let records = self.history(job, limit).await?;
            let all = records.len() < limit as usize;
            let latest = records.into_iter().find_map(|record| match record {
                Record::Attempt(attempt) => Some(attempt),
                Record::Skipped(_) => None,
            });
            if latest.is_some() || all {
                return Ok(latest);
            }
            limit = limit.saturating_mul(16);
        }
    }

    /// The unfinished runs of a job on all instances, and how long their leases still last.
    ///
    /// # Errors
    /// [`Error::NeedsLeases`] on a claim-only store; otherwise as [`history`](Self::history).
    pub async fn active(&self, job: &str) -> Result<Vec<ActiveRun>> {
        self.needs_leases("active")?;
        let job = JobName::new(job)?;
        self.ask(|reply| Command::Active { job, reply }).await?
    }

    /// Pauses a job on all instances until [`resume`](Self::resume): no run of it starts, and its slots are recorded as
    /// skipped. A run that goes on is not stopped. The pause, with this instance's id, the time and the note, is kept
    /// in the store and outlives every instance.
    ///
    /// # Errors
    /// [`Error::NeedsLeases`] on a claim-only store; otherwise as [`history`](Self::history).
    pub async fn pause(&self, job: &str, note: &str) -> Result<()> {
        self.needs_leases("pause")?;
        let job = JobName::new(job)?;
        let pause = Some(Pause::new(self.handle.instance.as_str(), note));
        self.ask(|reply| Command::SetPaused { job, pause, reply }).await?
    }

    /// Ends a pause. Slots that were skipped meanwhile are not made up for.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub async fn resume(&self, job: &str) -> Result<()> {
        self.needs_leases("resume")?;
        let job = JobName::new(job)?;
        self.ask(|reply| Command::SetPaused { job, pause: None, reply }).await?
    }

    /// Whether a job is paused, by whom and since when.
    ///
    /// # Errors
    /// As [`history`](Self::history).
    pub async fn paused(&self, job: &str) -> Result<Option<Pause>> {
        let job = JobName::new(job)?;
        self.ask(|reply| Command::Paused { job, reply }).await?
    }

    /// Stops this instance: no new claims; running handlers see [`cancelled`](crate::Context::cancelled), have
    /// `stop_grace` to react, and are dropped at their next await; then their runs are handed over to other instances.
    /// Runs that must not start twice (`max_attempts = 1`, manual, on claim-only stores) are waited for instead, for at
    /// most 20 s or the rest of their time-out. May be called any number of times, also at once; each call returns when
    /// all is over.
    ///
    /// # Errors
    /// [`Error::StillRunning`] when handlers still block their threads after 30 s more; their leases are not released
    /// but run out.
    pub async fn stop(&self) -> Result<()> {
        self.handle.stop().await
    }

    fn needs_leases(&self, call: &'static str) -> Result<()> {
        match self.handle.store.leases() {
            true => Ok(()),
            false => Err(Error::NeedsLeases { call, backend: self.handle.store.name().to_owned() }),
        }
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.handle.commands.send(command(reply)).map_err(|_| Error::Stopped)?;
        answer.await.map_err(|_| Error::Stopped)
    }
}
