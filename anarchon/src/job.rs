//! A job: its name, schedule, options and handler, checked against the scheduler's defaults and the store.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use anarchon_schedule::{At, Cron, Dialect, Every, ParseError, Schedule, zone};

use crate::backend::{DynStore, JobLimits};
use crate::error::Error;
use crate::extract::{BoxHandler, DataValue, Need, StateMap};
use crate::option::{Overlap, Retention};
use crate::registry::{EntryOptions, EntrySchedule, JobEntry};
use crate::slot::{JobName, Place, Slot};

/// The default wait before a claim, which no job's tenth of a gap exceeds.
const JITTER: Duration = Duration::from_millis(200);
const MAX_LATE: Duration = Duration::from_secs(60);
const CATCH_UP: Duration = Duration::from_secs(600);
const TAKEOVER_WITHIN: Duration = Duration::from_secs(3600);
const MAX_ATTEMPTS: u32 = 3;
/// A decided slot is kept this much longer than any claim of it could still be valid.
const KEEP_MARGIN: Duration = Duration::from_secs(60);

/// What a scheduler sets for jobs that do not set it themselves.
#[derive(Clone, Debug)]
pub(crate) struct JobDefaults {
    pub(crate) timezone: zone::Tz,
    pub(crate) jitter: Option<Duration>,
    pub(crate) max_late: Option<Duration>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) history_size: Option<u32>,
    pub(crate) history_ttl: Option<Duration>,
}

impl Default for JobDefaults {
    fn default() -> Self {
        Self {
            timezone: zone::Tz::UTC,
            jitter: None,
            max_late: None,
            timeout: None,
            history_size: None,
            history_ttl: None,
        }
    }
}

/// The options a job sets itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct JobOptions {
    pub(crate) jitter: Option<Duration>,
    pub(crate) max_late: Option<Duration>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) history_size: Option<u32>,
    pub(crate) history_ttl: Option<Duration>,
    pub(crate) overlap: Option<Overlap>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) retry_failed: Option<Duration>,
    pub(crate) catch_up: Option<Duration>,
    pub(crate) takeover_within: Option<Duration>,
}

impl From<&EntryOptions> for JobOptions {
    fn from(entry: &EntryOptions) -> Self {
        Self {
            jitter: entry.jitter_ms.map(Duration::from_millis),
            max_late: entry.max_late_ms.map(Duration::from_millis),
            timeout: entry.timeout_ms.map(Duration::from_millis),
            history_size: entry.history_size,
            history_ttl: entry.history_ttl_ms.map(Duration::from_millis),
            overlap: entry.overlap,
            max_attempts: entry.max_attempts,
            retry_failed: entry.retry_failed_ms.map(Duration::from_millis),
            catch_up: entry.catch_up_ms.map(Duration::from_millis),
            takeover_within: entry.takeover_within_ms.map(Duration::from_millis),
        }
    }
}

/// A schedule before the scheduler's zone is known.
#[derive(Clone, Debug)]
pub(crate) enum ScheduleSpec {
    Every { interval: Duration, offset: Duration },
    Cron { expression: String, dialect: Dialect, timezone: Option<String> },
    At { time: String, timezone: Option<String> },
}

impl From<&EntrySchedule> for ScheduleSpec {
    fn from(entry: &EntrySchedule) -> Self {
        match *entry {
            EntrySchedule::Every { interval_ms, offset_ms } => {
                Self::Every { interval: Duration::from_millis(interval_ms), offset: Duration::from_millis(offset_ms) }
            }
            EntrySchedule::Cron { expression, dialect, timezone } => {
                Self::Cron { expression: expression.to_owned(), dialect, timezone: timezone.map(str::to_owned) }
            }
            EntrySchedule::At { time, timezone } => {
                Self::At { time: time.to_owned(), timezone: timezone.map(str::to_owned) }
            }
        }
    }
}

impl ScheduleSpec {
    fn resolve(&self, job: &str, place: Place, default: zone::Tz) -> Result<Schedule, Error> {
        let parse = |option: &'static str, value: &str, source: ParseError| Error::Parse {
            job: job.to_owned(),
            option,
            value: value.to_owned(),
            place,
            source: Box::new(source),
        };
        let zone = |name: &Option<String>| match name {
            Some(name) => zone::parse(name).map(Some).map_err(|e| parse("timezone", name, e)),
            None => Ok(None),
        };
        match self {
            Self::Every { interval, offset } => Every::new(*interval, *offset)
                .map(Schedule::Every)
                .map_err(|e| parse("every", &anarchon_schedule::interval::format(*interval), e)),
            Self::Cron { expression, dialect, timezone } => {
                let zone = zone(timezone)?.unwrap_or(default);
                Cron::parse(expression, *dialect, zone).map(Schedule::Cron).map_err(|e| parse("cron", expression, e))
            }
            Self::At { time, timezone } => {
                let own = zone(timezone)?;
                // A time with an offset of its own needs no zone, so the scheduler's one must not stand in its way.
                let parsed = match own {
                    Some(_) => At::parse(time, own),
                    None => At::parse(time, Some(default)).or_else(|_| At::parse(time, None)),
                };
                parsed.map(Schedule::At).map_err(|e| parse("at", time, e))
            }
        }
    }
}

/// Everything said about a job, not yet checked.
#[derive(Clone, Debug)]
pub(crate) struct JobSpec {
    pub(crate) name: String,
    pub(crate) schedule: ScheduleSpec,
    pub(crate) options: JobOptions,
    pub(crate) handler: BoxHandler,
    pub(crate) data: Option<DataValue>,
    pub(crate) place: Place,
}

impl From<&JobEntry> for JobSpec {
    fn from(entry: &JobEntry) -> Self {
        Self {
            name: entry.name.to_owned(),
            schedule: (&entry.schedule).into(),
            options: (&entry.options).into(),
            handler: (entry.handler)(),
            data: entry.data.map(|make| make()),
            place: entry.place,
        }
    }
}

/// A checked job, with every default filled in.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) name: JobName,
    pub(crate) schedule: Schedule,
    pub(crate) handler: BoxHandler,
    pub(crate) data: Option<DataValue>,
    pub(crate) place: Place,
    /// Read through the job itself; see [`Terms`].
    terms: Arc<Terms>,
}

/// What is alike in many jobs, as in those of a service's tenants: kept once, which matters to a hundred thousand.
#[derive(Debug, PartialEq)]
pub(crate) struct Terms {
    pub(crate) identity: Arc<str>,
    pub(crate) fingerprint: Arc<str>,
    pub(crate) max_late: Duration,
    pub(crate) timeout: Option<Duration>,
    pub(crate) retention: Retention,
    pub(crate) overlap: Overlap,
    pub(crate) max_attempts: u32,
    pub(crate) retry_failed: Option<Duration>,
    jitter: Option<Duration>,
    default_jitter: Duration,
    catch_up: Option<Duration>,
    takeover_within: Option<Duration>,
    leases: bool,
}

impl Deref for Job {
    type Target = Terms;

    fn deref(&self) -> &Terms {
        &self.terms
    }
}

impl Job {
    /// Keeps the terms that the job before had, if they are alike; else says what the next one may share.
    pub(crate) fn share_terms(&mut self, before: &mut Option<Arc<Terms>>) {
        match before {
            Some(terms) if *terms == self.terms => self.terms = Arc::clone(terms),
            _ => *before = Some(Arc::clone(&self.terms)),
        }
    }

    /// Checks a job against the scheduler's defaults, its state, and what the store can honour.
    pub(crate) fn new(
        spec: JobSpec,
        defaults: &JobDefaults,
        state: &StateMap,
        store: &dyn DynStore,
    ) -> Result<Self, Error> {
        let JobSpec { name, schedule, options, handler, data, place } = spec;
        let name = JobName::new(name)?;
        let schedule = schedule.resolve(name.as_str(), place, defaults.timezone)?;
        let bad = |option, reason: &str| Error::JobOption { job: name.clone(), option, reason: reason.into(), place };

        if matches!(schedule, Schedule::At(_)) && options.overlap.is_some() {
            return Err(bad("overlap", "does not go with `at`: a job that runs once has nothing to overlap with"));
        }
        if options.max_attempts == Some(0) {
            return Err(bad("max_attempts", "must be at least 1"));
        }
        if options.retry_failed.is_some_and(|wait| wait.is_zero()) {
            return Err(bad("retry_failed", "must be longer than zero"));
        }
        if options.history_size.or(defaults.history_size) == Some(0) {
            return Err(bad("history_size", "must be at least 1"));
        }
        if options.timeout.or(defaults.timeout).is_some_and(|t| t.is_zero()) {
            return Err(bad("timeout", "must be longer than zero"));
        }
        if options.history_ttl.or(defaults.history_ttl).is_some_and(|t| t.is_zero()) {
            return Err(bad("history_ttl", "must be longer than zero"));
        }
        let terms = Terms {
            identity: schedule.identity().into(),
            fingerprint: schedule.fingerprint().into(),
            max_late: options.max_late.or(defaults.max_late).unwrap_or(MAX_LATE),
            timeout: options.timeout.or(defaults.timeout),
            retention: Retention::new(
                options.history_size.or(defaults.history_size).unwrap_or(Retention::default().size),
                options.history_ttl.or(defaults.history_ttl),
            ),
            overlap: if store.leases() { options.overlap.unwrap_or_default() } else { Overlap::Allow },
            max_attempts: if store.leases() { options.max_attempts.unwrap_or(MAX_ATTEMPTS) } else { 1 },
            retry_failed: options.retry_failed,
            jitter: options.jitter,
            default_jitter: defaults.jitter.unwrap_or(JITTER),
            catch_up: if store.leases() { options.catch_up } else { Some(Duration::ZERO) },
            takeover_within: options.takeover_within,
            leases: store.leases(),
        };
        let job = Self { name, schedule, handler, data, place, terms: Arc::new(terms) };
        job.check_jitter()?;
        job.check_store(&options, store)?;
        job.check_needs(state, store)?;
        Ok(job)
    }

    fn error(&self, option: &'static str, reason: impl Into<String>) -> Error {
        Error::JobOption { job: self.name.clone(), option, reason: reason.into(), place: self.place }
    }

    fn check_jitter(&self) -> Result<(), Error> {
        let Some(jitter) = self.jitter else { return Ok(()) };
        match self.schedule.shortest_gap() {
            Some(gap) if jitter >= gap => Err(self.error(
                "jitter",
                format!(
                    "({}) must be shorter than the time to the next slot, which can be {}",
                    anarchon_schedule::interval::format(jitter),
                    anarchon_schedule::interval::format(gap)
                ),
            )),
            _ => Ok(()),
        }
    }

    fn check_store(&self, options: &JobOptions, store: &dyn DynStore) -> Result<(), Error> {
        let unsupported = |option, needs, lacks| Error::Unsupported {
            job: self.name.clone(),
            option,
            needs,
            backend: store.name().to_owned(),
            lacks,
            place: self.place,
        };
        if !store.leases() {
            let lease_only = [
                ("overlap", options.overlap.is_some()),
                ("max_attempts", options.max_attempts.is_some()),
                ("retry_failed", options.retry_failed.is_some()),
                ("catch_up", options.catch_up.is_some()),
                ("takeover_within", options.takeover_within.is_some()),
            ];
            if let Some((option, _)) = lease_only.into_iter().find(|(_, set)| *set) {
                return Err(unsupported(option, "needs leases", "only claims"));
            }
        }
        if self.retention.ttl.is_some() && !store.history_by_age() {
            return Err(unsupported("history_ttl", "needs a store that trims by age", "does not"));
        }
        let jitter = self.jitter.unwrap_or(self.default_jitter);
        if let Some(memory) = store.memory()
            && jitter.saturating_add(self.max_late) >= memory
        {
            return Err(self.error(
                "max_late",
                format!(
                    "and jitter are {} together, which must be shorter than the {} for which backend `{}` remembers a slot",
                    anarchon_schedule::interval::format(jitter.saturating_add(self.max_late)),
                    anarchon_schedule::interval::format(memory),
                    store.name()
                ),
            ));
        }
        let limits = JobLimits::new(self.name.clone(), jitter, self.max_late, self.retention.ttl);
        store.check_job(&limits).map_err(|refusal| self.error(refusal.option, refusal.reason))
    }

    fn check_needs(&self, state: &StateMap, store: &dyn DynStore) -> Result<(), Error> {
        for need in self.handler.needs() {
            match *need {
                Need::State(id, type_name) if !state.has(id) => {
                    return Err(Error::MissingState { job: self.name.clone(), type_name, place: self.place });
                }
                Need::Data(id, type_name) if !self.data.as_ref().is_some_and(|data| data.is(id)) => {
                    let found = if self.data.is_some() { "data of another type" } else { "no data" };
                    return Err(Error::MissingData { job: self.name.clone(), type_name, found, place: self.place });
                }
                Need::Database(id, database) if store.transactional_finish().is_none_or(|f| f.database() != id) => {
                    let (job, backend) = (self.name.clone(), store.name().to_owned());
                    return Err(Error::OtherDatabase { job, database, backend, place: self.place });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The longest wait before the claim of a slot that the next one follows after `gap`.
    pub(crate) fn jitter(&self, gap: Option<Duration>) -> Duration {
        match (self.jitter, gap) {
            (Some(own), _) => own,
            (None, Some(gap)) => self.default_jitter.min(gap / 10),
            (None, None) => self.default_jitter,
        }
    }

    /// How old a slot may be to be caught up with, when the next one follows after `gap`.
    pub(crate) fn catch_up(&self, gap: Option<Duration>) -> Duration {
        match (self.catch_up, gap) {
            (Some(own), _) => own,
            (None, Some(gap)) => CATCH_UP.min(gap / 2),
            (None, None) => CATCH_UP,
        }
    }

    /// The slot before `slot` by this job's own schedule.
    pub(crate) fn previous(&self, slot: Slot) -> Option<Slot> {
        self.schedule.latest(slot.ms().saturating_sub(1)).map(Slot::from_ms)
    }

    pub(crate) fn takeover_within(&self) -> Duration {
        let longest = TAKEOVER_WITHIN.max(self.max_late).max(self.catch_up.unwrap_or(CATCH_UP));
        self.takeover_within.unwrap_or(longest)
    }

    /// How long a decided slot is kept at least, whatever the history's size.
    pub(crate) fn keep(&self) -> Duration {
        let jitter = self.jitter.unwrap_or(self.default_jitter);
        let catch_up = if self.leases { self.catch_up.unwrap_or(CATCH_UP) } else { Duration::ZERO };
        [jitter, catch_up, KEEP_MARGIN].into_iter().fold(self.max_late, Duration::saturating_add)
    }
}
