//! What can go wrong, as values. Nothing here belongs to one store.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use anarchon_schedule::ParseError;

use crate::slot::{JobName, Place};

/// The result of most calls of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Any boxed error, as handlers and backends return them.
pub type BoxError = Box<dyn StdError + Send + Sync + 'static>;

/// What went wrong in a call of the scheduler. Each message names the job, the option, the backend and the place
/// where it was declared, as far as they play a part; passwords in URLs are never shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A job's name breaks the rules of [`JobName`].
    #[error("{name:?} cannot be a job's name: {reason}")]
    JobName {
        /// The name as given.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// An instance id breaks the rules of [`InstanceId`](crate::InstanceId).
    #[error("{id:?} cannot be an instance id: {reason}")]
    InstanceId {
        /// The id as given.
        id: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A schedule, zone or duration could not be read.
    #[error("job `{job}` ({place}): `{option} = {value:?}`: {source}")]
    Parse {
        /// The job.
        job: String,
        /// The option that holds the text.
        option: &'static str,
        /// The text.
        value: String,
        /// Where the job was declared.
        place: Place,
        /// What is wrong with the text, and where in it.
        source: Box<ParseError>,
    },
    /// An option's value is out of its bounds, or does not go with another option of the job.
    #[error("job `{job}` ({place}): `{option}` {reason}")]
    JobOption {
        /// The job.
        job: JobName,
        /// The option.
        option: &'static str,
        /// What is wrong, in a few words that continue "`option` …".
        reason: String,
        /// Where the job was declared.
        place: Place,
    },
    /// A scheduler's option is out of its bounds.
    #[error("scheduler: `{option}` {reason}")]
    SchedulerOption {
        /// The option.
        option: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A job uses an option that the chosen store cannot honour.
    #[error("cannot add job `{job}` ({place}): it sets `{option}`, which {needs}; backend `{backend}` {lacks}")]
    Unsupported {
        /// The job.
        job: JobName,
        /// The option.
        option: &'static str,
        /// What the option needs, as in "needs leases".
        needs: &'static str,
        /// The backend's name.
        backend: String,
        /// What the backend does instead, as in "only claims".
        lacks: &'static str,
        /// Where the job was declared.
        place: Place,
    },
    /// The call needs a store with leases.
    #[error("`{call}` needs a backend with leases; backend `{backend}` only claims")]
    NeedsLeases {
        /// The method that was called.
        call: &'static str,
        /// The backend's name.
        backend: String,
    },
    /// Two jobs have one name.
    #[error(
        "two jobs are named `{job}`: one at {first}, the other at {second}; a name is a job's identity, so give each its own (`name = \"…\"`)"
    )]
    DuplicateJob {
        /// The name.
        job: JobName,
        /// Where the first was declared.
        first: Place,
        /// Where the second was declared.
        second: Place,
    },
    /// A handler asks for a `State<T>` that the scheduler was not given.
    #[error(
        "job `{job}` ({place}) takes `State<{type_name}>`, but no state of that type was given; add `.state(value)` to the scheduler"
    )]
    MissingState {
        /// The job.
        job: JobName,
        /// The type that is missing.
        type_name: &'static str,
        /// Where the job was declared.
        place: Place,
    },
    /// A handler asks for a `Data<T>` that the job was not given.
    #[error(
        "job `{job}` ({place}) takes `Data<{type_name}>`, but the job has {found}; set `data` to a value of that type"
    )]
    MissingData {
        /// The job.
        job: JobName,
        /// The type that is missing.
        type_name: &'static str,
        /// What the job has instead: "no data" or "data of another type".
        found: &'static str,
        /// Where the job was declared.
        place: Place,
    },
    /// A handler asks for a `Finish<Db>`, but the scheduler's store is no such database, or one whose transactions cannot
    /// finish a run.
    #[error(
        "job `{job}` ({place}) takes `Finish<{database}>`, but backend `{backend}` cannot finish a run inside such a transaction; take it out, or keep the jobs in the database that the handler writes to"
    )]
    OtherDatabase {
        /// The job.
        job: JobName,
        /// The database, as in `Sqlite`.
        database: &'static str,
        /// The backend's name.
        backend: String,
        /// Where the job was declared.
        place: Place,
    },
    /// `.registered()` found no annotated job in the program.
    #[error(
        "no #[anarchon::job] is linked into this program; a crate that holds jobs must be named once, as in `use my_jobs as _;`"
    )]
    NoJobs,
    /// `start()` was called outside a tokio runtime.
    #[error("start() must be called inside a tokio runtime: handlers run on it")]
    NoRuntime,
    /// The scheduler does not know the job.
    #[error("this scheduler has no job named {0:?}")]
    UnknownJob(String),
    /// `remove()` was called for a job while it was being added.
    #[error("job `{job}` was removed while it was being added")]
    Removed {
        /// The job.
        job: JobName,
    },
    /// The store failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The scheduler has stopped.
    #[error("the scheduler has stopped")]
    Stopped,
    /// `stop()` gave up on handlers that block their thread; their leases were not released, so backups take over once
    /// they have run out.
    #[error("still running after {waited:?}, since they block their thread: {}; their leases were left to run out", list(.jobs))]
    StillRunning {
        /// The jobs whose handlers still run.
        jobs: Vec<JobName>,
        /// How long stop() waited.
        waited: Duration,
    },
    /// `run_now_exclusive` found another run of the job alive.
    #[error("job `{job}` is running already; `run_now_exclusive` starts nothing beside it")]
    AlreadyRunning {
        /// The job.
        job: JobName,
    },
    /// The store's URL could not be understood, or no driver for it is compiled in.
    #[error("{0}")]
    Url(String),
    /// The operating system refused something we need, such as a thread.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: std::io::Error,
    },
}

fn list(jobs: &[JobName]) -> String {
    jobs.iter().map(|j| format!("`{j}`")).collect::<Vec<_>>().join(", ")
}

/// How sure we are that a failed store call did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackendErrorKind {
    /// The store could not be reached, or the reply was lost: whether the call took effect is unknown. It is repeated
    /// with the same token.
    Unknown,
    /// The store was busy and did nothing; the call is repeated.
    Busy,
    /// The store refused the call and did nothing; repeating it will not help.
    Refused,
    /// The store, or what it holds, does not fit: a wrong URL, missing privileges, other settings, newer data.
    Config,
}

/// A store failed. The message names the backend; it never holds a password.
#[derive(Debug)]
pub struct BackendError {
    backend: String,
    kind: BackendErrorKind,
    message: String,
    source: Option<BoxError>,
}

impl BackendError {
    /// An error of the backend called `backend`.
    pub fn new(backend: impl Into<String>, kind: BackendErrorKind, message: impl Into<String>) -> Self {
        Self { backend: backend.into(), kind, message: message.into(), source: None }
    }

    /// Keeps the error that caused this one. Its text must hold no password.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What is known about the call's effect.
    #[must_use]
    pub fn kind(&self) -> BackendErrorKind {
        self.kind
    }

    /// The backend's name.
    #[must_use]
    pub fn backend(&self) -> &str {
        &self.backend
    }

    /// The message without the backend's name.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// A copy for each of several callers that shared one store call; the source stays with the original.
    #[must_use]
    pub fn to_shared(&self) -> Self {
        Self { backend: self.backend.clone(), kind: self.kind, message: self.message.clone(), source: None }
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "backend `{}`: {}", self.backend, self.message)
    }
}

impl StdError for BackendError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|s| s as &(dyn StdError + 'static))
    }
}
