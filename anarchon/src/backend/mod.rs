//! What a store must be able to do: [`Backend`] for any of them, [`ClaimBackend`] or [`LeaseBackend`] on top.
//!
//! A backend's strength is in its type: [`Backend::Strength`] is [`Leases`] or [`ClaimOnly`], and the scheduler takes
//! any backend whose second trait fits it. Write one of the two, and everything else follows.

mod any;
mod erased;
mod gather;
#[cfg(feature = "nats")]
mod jetstream;
#[cfg(feature = "libsql")]
mod libsql;
mod memory;
mod memory_claim_only;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "nats")]
mod nats_kv;
#[cfg(feature = "_postgres")]
mod postgres;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
#[cfg(feature = "redis")]
pub mod redis;
pub mod sql;
#[cfg(feature = "sqlite")]
mod sqlite;
// The dialect alone, which libSQL speaks too.
#[cfg(all(feature = "libsql", not(feature = "sqlite")))]
#[path = "sqlite/dialect.rs"]
mod sqlite_dialect;
mod state;

use std::future::Future;
use std::time::Duration;

use futures_util::StreamExt as _;

pub use any::{AnyBackend, AnyClaimBackend};
pub use erased::{AnyStrength, DynStore};
#[cfg(feature = "libsql")]
pub use libsql::LibsqlBackend;
pub use memory::MemoryBackend;
pub use memory_claim_only::ClaimOnlyMemoryBackend;
#[cfg(feature = "mysql")]
pub use mysql::{MySqlBackend, MySqlDialect};
#[cfg(feature = "nats")]
pub use nats::NatsBackend;
#[cfg(feature = "nats")]
pub use nats_kv::NatsKvBackend;
#[cfg(feature = "_postgres")]
pub use postgres::{PostgresBackend, PostgresDialect};
#[cfg(feature = "rabbitmq")]
pub use rabbitmq::RabbitMqBackend;
#[cfg(feature = "redis")]
pub use redis::{RedisBackend, ValkeyBackend};
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteBackend, SqliteDialect};
#[cfg(all(feature = "libsql", not(feature = "sqlite")))]
pub use sqlite_dialect::SqliteDialect;

use crate::error::{BackendError, BackendErrorKind};
use crate::run::{
    ActiveRun, Beat, BeatOutcome, ClaimOutcome, Finish, FinishOutcome, KnownJob, ManualClaim, ManualOutcome, Pause,
    Record, Registered, Registration, Release, ReleaseOutcome, RunClaim, SlotClaim, SlotOutcome, Timed, Trim,
};
use crate::slot::JobName;

/// What one call is about at most, and a built-in store carries in one round trip: so much that a tick costs about as many
/// calls as it has groups, also with 1000 jobs, and so little that the store's atomic step stays short.
pub(crate) const AT_ONCE: usize = 512;

/// What a store says of an address that asks for TLS in a program that has none.
#[cfg(any(feature = "libsql", feature = "mysql", feature = "postgres", feature = "rabbitmq", feature = "redis"))]
pub(crate) const NO_TLS: &str =
    "TLS is not compiled into this program: enable the feature `tls` of the crate `anarchon`";

/// How many calls a default `*_many` method keeps under way at once.
const CALLS_AT_ONCE: usize = 16;

mod sealed {
    pub trait Sealed {}
}

/// What a store can hold: [`Leases`], or claims alone ([`ClaimOnly`]).
pub trait Strength: sealed::Sealed + Send + Sync + 'static {}

/// The strength of a store that holds leases, so that backups can take over.
#[derive(Debug)]
pub enum Leases {}

/// The strength of a store that can only say who was first.
#[derive(Debug)]
pub enum ClaimOnly {}

impl sealed::Sealed for Leases {}
impl sealed::Sealed for ClaimOnly {}
impl Strength for Leases {}
impl Strength for ClaimOnly {}

/// What the scheduler is told when it connects.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ServerInfo {
    /// The server and its version, for people, as in `SQLite 3.46.0`.
    pub server: String,
    /// Things a person should know, logged once at start: a store that is local to this machine, a client of the
    /// application that is used itself, a setting that endangers the data.
    pub warnings: Vec<String>,
    /// The tables, streams or buckets that it keeps jobs in, as far as [`Backend::look`] names them.
    pub places: Vec<String>,
    /// Whether [`Backend::look`] found nothing in place yet, since no instance has ever started on this store.
    pub empty: bool,
}

impl ServerInfo {
    /// A server by name and version, with nothing to warn about.
    pub fn new(server: impl Into<String>) -> Self {
        Self { server: server.into(), ..Self::default() }
    }
}

/// What [`Backend::check_job`] may judge a job by.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobLimits {
    /// The job.
    pub job: JobName,
    /// Its longest wait before a claim.
    pub jitter: Duration,
    /// How late a slot may be claimed.
    pub max_late: Duration,
    /// `history_ttl`, if the job sets it.
    pub history_ttl: Option<Duration>,
}

impl JobLimits {
    /// The limits of `job`.
    #[must_use]
    pub fn new(job: JobName, jitter: Duration, max_late: Duration, history_ttl: Option<Duration>) -> Self {
        Self { job, jitter, max_late, history_ttl }
    }
}

/// Why a store takes no such job; see [`Backend::check_job`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{option}` {reason}")]
#[non_exhaustive]
pub struct JobRefusal {
    /// The option that is to blame, as in `name` or `history_ttl`.
    pub option: &'static str,
    /// What is wrong with it: the rest of a sentence that begins with the option.
    pub reason: String,
}

impl JobRefusal {
    /// `option` is to blame; `reason` goes on from there, as in "may have only letters".
    pub fn new(option: &'static str, reason: impl Into<String>) -> Self {
        Self { option, reason: reason.into() }
    }
}

/// What any store can do for the scheduler.
///
/// # Contract
/// - **Repeatable.** Every call may reach the store twice, late, or without its answer coming back. A call repeated
///   with the same token changes nothing more and answers the same.
/// - **Cancel-safe.** A call's future may be dropped at any await. What it began is then either done or undone by the
///   store, and the connection it used is fit for the next call, or discarded.
/// - **Errors say what is known**: [`BackendErrorKind`]. Losing is a value, not an error.
/// - **One clock.** Where the store has a clock, every time in the contract is that clock's, read inside the atomic step.
/// - Calls are made on the scheduler's own thread: what is opened in [`connect`](Self::connect) has its I/O there.
pub trait Backend: Send + Sync + 'static {
    /// [`Leases`] or [`ClaimOnly`].
    type Strength: Strength;

    /// Whether a job's name may have ASCII letters, digits, `_` and `-` only, as on stores where it is a part of a queue's or a
    /// subject's name. Then a job that is annotated with another name does not compile where this backend is named; one
    /// that is made at run time is refused by [`check_job`](Self::check_job).
    const PLAIN_NAMES: bool = false;

    /// The name in logs and errors, as in `sqlite` or `redis:lease`.
    fn name(&self) -> &str;

    /// How long, from its slot on, a decided slot is remembered; `None` is for ever (up to the trim mark). The
    /// scheduler refuses a job whose jitter and `max_late` together are not shorter.
    fn memory(&self) -> Option<Duration> {
        None
    }

    /// Refuses a job that this store cannot run safely. Unless it is overridden, it refuses names that
    /// [`PLAIN_NAMES`](Self::PLAIN_NAMES) rules out.
    ///
    /// # Errors
    /// Which option is to blame, and why.
    fn check_job(&self, limits: &JobLimits) -> Result<(), JobRefusal> {
        plain_name::<Self>(&limits.job)
    }

    /// Whether the store trims history by age; true exactly where [`HistoryByAge`] is implemented.
    fn history_by_age(&self) -> bool {
        false
    }

    /// Connects, checks the server, and makes what must be there. Called by `start()`, before anything else.
    fn connect(&self) -> impl Future<Output = Result<ServerInfo, BackendError>> + Send;

    /// Connects for somebody who only reads, as the command line does: nothing is made, and where nothing is in place yet,
    /// [`ServerInfo::empty`] says so, and no other call follows but [`close`](Self::close).
    /// Default: [`connect`](Self::connect), for stores where there is nothing to make, or which cannot be told to leave it.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    fn look(&self) -> impl Future<Output = Result<ServerInfo, BackendError>> + Send {
        self.connect()
    }

    /// What the store knows of these jobs, or, of an empty list, of all; jobs that it does not know are left out. Writes
    /// nothing. `None`, which is the default, is a store that does not tell.
    ///
    /// # Errors
    /// When the store does not answer.
    fn known(&self, jobs: &[JobName]) -> impl Future<Output = Result<Option<Vec<KnownJob>>, BackendError>> + Send {
        let _ = jobs;
        async { Ok(None) }
    }

    /// The store's clock in ms since the epoch; `None` where it has none.
    fn clock(&self) -> impl Future<Output = Result<Option<i64>, BackendError>> + Send;

    /// Makes jobs known: called at start, when a job is added, and once a day. Writes nothing that another instance's
    /// registration could undo: a floor is kept per (job, schedule identity) and only ever inserted.
    ///
    /// Answers in the order of `jobs`. Jobs that no instance has registered for `forget_after` are removed in small
    /// batches, their unfinished runs closed as `dead` first; a paused job is never removed.
    fn register(
        &self,
        jobs: &[Registration],
        forget_after: Duration,
    ) -> impl Future<Output = Result<Timed<Vec<Registered>>, BackendError>> + Send;

    /// Starts a manual run in a key space of its own: it touches no slot, no trim mark and nothing that decides slots.
    fn claim_manual(
        &self,
        claim: &ManualClaim,
    ) -> impl Future<Output = Result<Timed<ManualOutcome>, BackendError>> + Send;

    /// Records how an attempt ended, guarded by its token.
    fn finish(&self, finish: &Finish) -> impl Future<Output = Result<Timed<FinishOutcome>, BackendError>> + Send;

    /// Many [`finish`](Self::finish) calls; each answer is what that call alone would have got.
    fn finish_many(
        &self,
        finishes: &[Finish],
    ) -> impl Future<Output = Vec<Result<Timed<FinishOutcome>, BackendError>>> + Send {
        many(finishes, |f| self.finish(f))
    }

    /// The latest records of a job from all instances, newest first, at most `limit`.
    fn history(&self, job: &JobName, limit: u32) -> impl Future<Output = Result<Vec<Record>, BackendError>> + Send;

    /// Drops what is older or more than the jobs' retention asks for, in small batches; never an unfinished run, and
    /// never a decided slot that is younger than `keep`. A slot that was dropped can never be won again. A store that
    /// trims while it works needs no body here.
    fn trim(&self, jobs: &[Trim]) -> impl Future<Output = Result<(), BackendError>> + Send {
        let _ = jobs;
        async { Ok(()) }
    }

    /// How a run is marked done inside a transaction of the user's own, on a store that is a SQL database; `Some` exactly
    /// where [`FinishIn`] is implemented, and of that database.
    fn transactional_finish(&self) -> Option<sql::TransactionalFinish<'_>> {
        None
    }

    /// Closes what the backend opened itself; a client that was passed in stays open.
    fn close(&self) -> impl Future<Output = ()> + Send;
}

/// A store that can only say who was first.
///
/// # Contract
/// For one job and one slot, [`claim`](Self::claim) answers `Won` for exactly one token, for as long as
/// [`Backend::memory`] says, and answers it again whenever that token is sent again.
pub trait ClaimBackend: Backend<Strength = ClaimOnly> {
    /// Was this token first?
    fn claim(&self, claim: &SlotClaim) -> impl Future<Output = Result<Timed<SlotOutcome>, BackendError>> + Send;

    /// Many [`claim`](Self::claim) calls, each of another job; atomic one by one.
    fn claim_many(
        &self,
        claims: &[SlotClaim],
    ) -> impl Future<Output = Vec<Result<Timed<SlotOutcome>, BackendError>>> + Send {
        many(claims, |c| self.claim(c))
    }
}

/// A store that holds, for each run, who runs it and until when.
///
/// # Contract
/// Every method is one atomic step per job on the store's clock. [`claim`](Self::claim) decides by the table in the
/// [guide's chapter on leases](crate::guide::leases), whose rows [`lease`](crate::lease) holds as pure functions; the conformance suite
/// (`anarchon::testing::conformance`) holds every store to them.
pub trait LeaseBackend: Backend<Strength = Leases> {
    /// Decides a claim.
    fn claim(&self, claim: &RunClaim) -> impl Future<Output = Result<Timed<ClaimOutcome>, BackendError>> + Send;

    /// Many [`claim`](Self::claim) calls, each of another job, sorted by name; atomic per job.
    fn claim_many(
        &self,
        claims: &[RunClaim],
    ) -> impl Future<Output = Vec<Result<Timed<ClaimOutcome>, BackendError>>> + Send {
        many(claims, |c| self.claim(c))
    }

    /// Moves the end of a live lease forward, never back, if the token matches. An ended lease is never revived.
    fn heartbeat(&self, beat: &Beat) -> impl Future<Output = Result<Timed<BeatOutcome>, BackendError>> + Send;

    /// Many [`heartbeat`](Self::heartbeat) calls.
    fn heartbeat_many(
        &self,
        beats: &[Beat],
    ) -> impl Future<Output = Vec<Result<Timed<BeatOutcome>, BackendError>>> + Send {
        many(beats, |b| self.heartbeat(b))
    }

    /// Ends a lease now, so that a backup may start the run again; a matching token is enough, even after the lease.
    fn release(&self, release: &Release) -> impl Future<Output = Result<Timed<ReleaseOutcome>, BackendError>> + Send;

    /// Many [`release`](Self::release) calls.
    fn release_many(
        &self,
        releases: &[Release],
    ) -> impl Future<Output = Vec<Result<Timed<ReleaseOutcome>, BackendError>>> + Send {
        many(releases, |r| self.release(r))
    }

    /// The unfinished runs of these jobs; of an empty list, those of all jobs. Manual runs whose lease is over are
    /// closed as `dead` on the way.
    fn active(&self, jobs: &[JobName]) -> impl Future<Output = Result<Timed<Vec<ActiveRun>>, BackendError>> + Send;

    /// The same for somebody who only reads: nothing is closed on the way. Default: [`active`](Self::active).
    fn unfinished(&self, jobs: &[JobName]) -> impl Future<Output = Result<Timed<Vec<ActiveRun>>, BackendError>> + Send {
        self.active(jobs)
    }

    /// Pauses a job (it starts no run any more; one that runs goes on) or, with `None`, resumes it. Pausing a paused
    /// job changes the note.
    fn set_paused(&self, job: &JobName, pause: Option<&Pause>)
    -> impl Future<Output = Result<(), BackendError>> + Send;

    /// Whether a job is paused, by whom and since when.
    fn paused(&self, job: &JobName) -> impl Future<Output = Result<Option<Pause>, BackendError>> + Send;
}

/// A store that can trim history by age; `history_ttl` is available on it.
pub trait HistoryByAge: Backend {}

/// A store that is a database `Db` of sqlx, inside whose transactions its runs can be finished; `Finish<Db>` is available
/// on it. [`Backend::transactional_finish`] says how.
pub trait FinishIn<Db>: LeaseBackend {}

/// Refuses a name that the backend's [`Backend::PLAIN_NAMES`] rules out.
fn plain_name<B: Backend + ?Sized>(job: &JobName) -> Result<(), JobRefusal> {
    let reason = job.not_plain().filter(|_| B::PLAIN_NAMES);
    reason.map_or(Ok(()), |reason| Err(JobRefusal::new("name", reason)))
}

/// The one answer of a call about one thing to the backend of this name.
fn only<T>(name: &str, mut answers: Vec<Result<T, BackendError>>) -> Result<T, BackendError> {
    let none = || Err(BackendError::new(name, BackendErrorKind::Unknown, "the store gave no answer"));
    answers.pop().unwrap_or_else(none)
}

async fn many<'a, T, R, F>(items: &'a [T], mut call: impl FnMut(&'a T) -> F + Send) -> Vec<R>
where
    T: Sync,
    R: Send,
    F: Future<Output = R> + Send,
{
    let calls: Vec<F> = items.iter().map(&mut call).collect();
    futures_util::stream::iter(calls).buffered(CALLS_AT_ONCE).collect().await
}
