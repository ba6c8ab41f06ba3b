//! Jobs made while the program runs, with the same options and the same refusals as annotated ones.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use anarchon_schedule::Dialect;

use super::Scheduler;
use super::engine::Command;
use crate::duration::IntoDuration;
use crate::error::{Error, Result};
use crate::extract::{BoxHandler, DataValue};
use crate::job::{Job, JobOptions, JobSpec, ScheduleSpec};
use crate::option::{On, Overlap, Supports, SupportsHistoryTtl, marker};
use crate::slot::Place;

/// The kinds of schedule, as types: some options go with some kinds only.
pub mod kind {
    /// An interval.
    #[derive(Debug)]
    pub enum Every {}
    /// A cron line.
    #[derive(Debug)]
    pub enum Cron {}
    /// Once.
    #[derive(Debug)]
    pub enum At {}

    mod sealed {
        pub trait Sealed {}
    }
    impl sealed::Sealed for Every {}
    impl sealed::Sealed for Cron {}
    impl sealed::Sealed for At {}

    /// A schedule with more than one slot.
    #[diagnostic::on_unimplemented(
        message = "`overlap` does not go with `at`: a job that runs once has nothing to overlap with",
        label = "not available on a job that runs once"
    )]
    pub trait Repeats: sealed::Sealed {}
    #[diagnostic::do_not_recommend]
    impl Repeats for Every {}
    #[diagnostic::do_not_recommend]
    impl Repeats for Cron {}

    /// A schedule that is read in a time zone.
    #[diagnostic::on_unimplemented(
        message = "`timezone` does not go with `every`: its grid is anchored at the Unix epoch",
        label = "not available on an interval; use `offset`"
    )]
    pub trait Zoned: sealed::Sealed {}
    #[diagnostic::do_not_recommend]
    impl Zoned for Cron {}
    #[diagnostic::do_not_recommend]
    impl Zoned for At {}
}

/// A job about to be added; [`add`](Self::add) checks and adds it. Options about leases exist only on backends that
/// have them.
#[must_use = "a job is not added before `.add().await`"]
pub struct JobBuilder<'s, B, K> {
    scheduler: &'s Scheduler<B>,
    spec: JobSpec,
    fault: Option<Error>,
    kind: PhantomData<K>,
}

impl<B, K> fmt::Debug for JobBuilder<'_, B, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobBuilder").field("name", &self.spec.name).finish_non_exhaustive()
    }
}

impl<B, K> On<B> for JobBuilder<'_, B, K> {}

impl<'s, B, K> JobBuilder<'s, B, K> {
    #[track_caller]
    fn new(scheduler: &'s Scheduler<B>, name: String, schedule: ScheduleSpec, handler: BoxHandler) -> Self {
        let place = Place::caller();
        let spec = JobSpec { name, schedule, options: JobOptions::default(), handler, data: None, place };
        Self { scheduler, spec, fault: None, kind: PhantomData }
    }

    fn duration(&mut self, option: &'static str, value: impl IntoDuration) -> Option<Duration> {
        match value.into_duration() {
            Ok(duration) => Some(duration),
            Err((value, source)) => {
                let (job, place) = (self.spec.name.clone(), self.spec.place);
                self.fault.get_or_insert(Error::Parse { job, option, value, place, source: Box::new(source) });
                None
            }
        }
    }

    /// The job's own value, of which each run gets a clone as [`Data<T>`](crate::Data).
    pub fn data<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.spec.data = Some(DataValue::new(value));
        self
    }

    /// The longest random wait before a claim. Default: 200 ms, at most a tenth of the gap to the next slot.
    pub fn jitter(mut self, jitter: impl IntoDuration) -> Self {
        self.spec.options.jitter = self.duration("jitter", jitter);
        self
    }

    /// How late a slot may still be claimed. Default: 60 s.
    pub fn max_late(mut self, max_late: impl IntoDuration) -> Self {
        self.spec.options.max_late = self.duration("max_late", max_late);
        self
    }

    /// When a run is cancelled. Default: never.
    pub fn timeout(mut self, timeout: impl IntoDuration) -> Self {
        self.spec.options.timeout = self.duration("timeout", timeout);
        self
    }

    /// How many started attempts are kept. Default: 100.
    pub fn history_size(mut self, attempts: u32) -> Self {
        self.spec.options.history_size = Some(attempts);
        self
    }

    /// How long history is kept. Default: as long as `history_size` allows.
    pub fn history_ttl<T>(mut self, ttl: impl IntoDuration) -> Self
    where
        Self: On<T>,
        T: SupportsHistoryTtl,
    {
        self.spec.options.history_ttl = self.duration("history_ttl", ttl);
        self
    }

    /// What happens to a slot that falls due while another run of the job is live. Default: it is skipped.
    pub fn overlap<T>(mut self, overlap: Overlap) -> Self
    where
        Self: On<T>,
        T: Supports<marker::overlap>,
        K: kind::Repeats,
    {
        self.spec.options.overlap = Some(overlap);
        self
    }

    /// How many started attempts of a run may end lost, failed or timed out. Default: 3.
    pub fn max_attempts<T>(mut self, attempts: u32) -> Self
    where
        Self: On<T>,
        T: Supports<marker::max_attempts>,
    {
        self.spec.options.max_attempts = Some(attempts);
        self
    }

    /// The wait before a failed or timed-out attempt is started again, on any instance; it doubles with each failure,
    /// to at most 10 min. Default: it is not started again.
    pub fn retry_failed<T>(mut self, wait: impl IntoDuration) -> Self
    where
        Self: On<T>,
        T: Supports<marker::retry_failed>,
    {
        self.spec.options.retry_failed = self.duration("retry_failed", wait);
        self
    }

    /// How old a missed slot may be to be made up for; only ever the latest one. Zero turns it off. Default: 10 min, at
    /// most half the gap to the next slot.
    pub fn catch_up<T>(mut self, within: impl IntoDuration) -> Self
    where
        Self: On<T>,
        T: Supports<marker::catch_up>,
    {
        self.spec.options.catch_up = self.duration("catch_up", within);
        self
    }

    /// How long after its lease ended a run may still be taken over. Default: the largest of 1 h, `max_late` and
    /// `catch_up`.
    pub fn takeover_within<T>(mut self, within: impl IntoDuration) -> Self
    where
        Self: On<T>,
        T: Supports<marker::takeover_within>,
    {
        self.spec.options.takeover_within = self.duration("takeover_within", within);
        self
    }

    /// The IANA name of the zone in which the schedule is read. Default: the scheduler's.
    pub fn timezone(mut self, name: impl Into<String>) -> Self
    where
        K: kind::Zoned,
    {
        match &mut self.spec.schedule {
            ScheduleSpec::Cron { timezone, .. } | ScheduleSpec::At { timezone, .. } => *timezone = Some(name.into()),
            ScheduleSpec::Every { .. } => {}
        }
        self
    }

    /// Checks the job, makes it known to the store, and starts to claim its slots.
    ///
    /// # Errors
    /// When an option is out of bounds or the store cannot honour it, the name is taken on this instance, a value that
    /// the handler takes was not given, the job was removed meanwhile, the scheduler has stopped, or the store fails.
    pub async fn add(self) -> Result<()> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let handle = &self.scheduler.handle;
        let job = Box::new(Job::new(self.spec, &handle.defaults, &handle.state, &*handle.store)?);
        self.scheduler.ask(|reply| Command::Add { job, reply }).await?
    }
}

impl<'s, B> JobBuilder<'s, B, kind::Every> {
    #[track_caller]
    pub(super) fn every(
        scheduler: &'s Scheduler<B>,
        name: String,
        interval: impl IntoDuration,
        handler: BoxHandler,
    ) -> Self {
        let schedule = ScheduleSpec::Every { interval: Duration::ZERO, offset: Duration::ZERO };
        let mut builder = Self::new(scheduler, name, schedule, handler);
        let parsed = builder.duration("every", interval);
        if let (ScheduleSpec::Every { interval, .. }, Some(parsed)) = (&mut builder.spec.schedule, parsed) {
            *interval = parsed;
        }
        builder
    }

    /// Shifts the grid; shorter than the interval. Default: zero.
    pub fn offset(mut self, by: impl IntoDuration) -> Self {
        let parsed = self.duration("offset", by);
        if let (ScheduleSpec::Every { offset, .. }, Some(parsed)) = (&mut self.spec.schedule, parsed) {
            *offset = parsed;
        }
        self
    }
}

impl<'s, B> JobBuilder<'s, B, kind::Cron> {
    #[track_caller]
    pub(super) fn cron(scheduler: &'s Scheduler<B>, name: String, expression: String, handler: BoxHandler) -> Self {
        let schedule = ScheduleSpec::Cron { expression, dialect: Dialect::Unix, timezone: None };
        Self::new(scheduler, name, schedule, handler)
    }

    /// How the line is read. Default: [`Dialect::Unix`].
    pub fn dialect(mut self, value: Dialect) -> Self {
        if let ScheduleSpec::Cron { dialect, .. } = &mut self.spec.schedule {
            *dialect = value;
        }
        self
    }
}

impl<'s, B> JobBuilder<'s, B, kind::At> {
    #[track_caller]
    pub(super) fn at(scheduler: &'s Scheduler<B>, name: String, time: String, handler: BoxHandler) -> Self {
        Self::new(scheduler, name, ScheduleSpec::At { time, timezone: None }, handler)
    }
}
