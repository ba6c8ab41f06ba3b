//! What is said about jobs: that an instance has them, what may be forgotten, and pauses.

use std::sync::Arc;
use std::time::Duration;

use crate::option::Retention;
use crate::slot::{InstanceId, JobName, Slot};

/// What an instance tells the store about a job when it starts, and once a day.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Registration {
    /// The job.
    pub job: JobName,
    /// Its schedule identity.
    pub identity: Arc<str>,
    /// Schedule identity and tzdata version; instances that disagree are warned.
    pub fingerprint: Arc<str>,
    /// Who registers.
    pub instance: InstanceId,
    /// How much history to keep.
    pub retention: Retention,
}

impl Registration {
    /// Registers `job` with one schedule identity.
    pub fn new(
        job: JobName,
        identity: impl Into<Arc<str>>,
        fingerprint: impl Into<Arc<str>>,
        instance: InstanceId,
    ) -> Self {
        let fingerprint = fingerprint.into();
        let identity = identity.into();
        Self { job, identity, fingerprint, instance, retention: Retention::default() }
    }
}

/// The store's answer to a [`Registration`].
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Registered {
    /// The store time at which this schedule identity was first registered, in ms since the epoch.
    pub floor: i64,
    /// What other instances registered for this job within the last day and that differs: (instance, fingerprint).
    pub others: Vec<(String, String)>,
}

impl Registered {
    /// An answer with this floor and nobody who disagrees.
    #[must_use]
    pub fn new(floor: i64) -> Self {
        Self { floor, others: Vec::new() }
    }
}

/// What a store knows of a job beside its runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnownJob {
    /// The job.
    pub job: JobName,
    /// The newest slot whose record has been trimmed, if any was: no slot at or before it can be won any more.
    pub trim_mark: Option<Slot>,
    /// The pause, while it is paused.
    pub pause: Option<Pause>,
    /// What was registered for it, one for each schedule identity, sorted by that.
    pub schedules: Vec<KnownSchedule>,
}

impl KnownJob {
    /// A job of which nothing else is known.
    #[must_use]
    pub fn new(job: JobName) -> Self {
        Self { job, trim_mark: None, pause: None, schedules: Vec::new() }
    }
}

/// What was registered for a job under one schedule identity.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnownSchedule {
    /// The schedule identity.
    pub identity: String,
    /// When it was first registered, in store ms since the epoch: no slot at or before it is owed.
    pub floor: i64,
    /// Who registered it last; `None` when only a claim has brought its floor.
    pub registered: Option<Registrant>,
}

impl KnownSchedule {
    /// An identity with its floor.
    pub fn new(identity: impl Into<String>, floor: i64) -> Self {
        Self { identity: identity.into(), floor, registered: None }
    }
}

/// The latest registration of a schedule identity.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Registrant {
    /// The instance.
    pub instance: String,
    /// Its schedule identity and tzdata version.
    pub fingerprint: String,
    /// When, in store ms since the epoch.
    pub at: i64,
}

impl Registrant {
    /// A registration by `instance` at `at`, in store ms.
    pub fn new(instance: impl Into<String>, fingerprint: impl Into<String>, at: i64) -> Self {
        Self { instance: instance.into(), fingerprint: fingerprint.into(), at }
    }
}

/// What a trim of one job keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trim {
    /// The job.
    pub job: JobName,
    /// How much history to keep.
    pub retention: Retention,
    /// A slot decided less than this ago is kept whatever `retention` says.
    pub keep: Duration,
}

impl Trim {
    /// Trims `job` to `retention`, keeping what is younger than `keep`.
    #[must_use]
    pub fn new(job: JobName, retention: Retention, keep: Duration) -> Self {
        Self { job, retention, keep }
    }
}

/// Who paused a job, when and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pause {
    /// Who: the instance, or what the caller said.
    pub by: String,
    /// When, in store ms since the epoch; 0 in a request, since the store fills it in.
    pub at: i64,
    /// A note for those who wonder.
    pub note: String,
}

impl Pause {
    /// A pause by `by`, with a note.
    pub fn new(by: impl Into<String>, note: impl Into<String>) -> Self {
        Self { by: by.into(), at: 0, note: note.into() }
    }
}
