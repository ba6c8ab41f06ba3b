//! NATS: claims alone, by what JetStream was first given to store, for a time that is the stream's window.
//!
//! `store` says how it is decided. The stream is on disk; with three replicas it outlives the loss of a server. NATS 2.9 or
//! newer.

mod record;
mod store;
mod subject;

use std::fmt;
use std::time::Duration;

use async_nats::{Client, ConnectOptions};

use self::store::Store;
use super::jetstream::Address;
use super::{Backend, ClaimBackend, ClaimOnly, JobLimits, JobRefusal, ServerInfo};
use crate::error::{BackendError, BackendErrorKind, Error};
use crate::run::{
    Finish, FinishOutcome, ManualClaim, ManualOutcome, Record, Registered, Registration, SlotClaim, SlotOutcome, Timed,
    Trim,
};
use crate::scheduler::entry::{FromEnv, set};
use crate::slot::JobName;

const NAME: &str = "nats";
const DEFAULT_SERVER: &str = "nats://localhost:4222";

/// A backend on NATS that only claims: it says who was first, for a time, and holds no leases. A run whose runner dies is lost.
/// [`NatsKvBackend`](crate::NatsKvBackend) holds leases on the same servers.
///
/// Nothing connects before `start()`. Names of jobs are of letters, digits, `_` and `-`; others are refused when the job is
/// added.
///
/// | option | default | meaning |
/// |---|---|---|
/// | [`new`](Self::new) | `nats://localhost:4222` | where it is: URLs, or `host:port`, with commas between them |
/// | [`stream`](Self::stream) | `CRON` | the stream, made unless it is there |
/// | [`prefix`](Self::prefix) | `cron.` | what its subjects begin with |
/// | [`duplicate_window`](Self::duplicate_window) | 5 min | how long a decided slot is remembered |
/// | [`history_size`](Self::history_size) | 1000 | how many runs of each job are kept at least |
/// | [`replicas`](Self::replicas) | 1 | on how many servers of a cluster the stream is kept |
/// | [`connect_options`](Self::connect_options) | | TLS, credentials |
///
/// A slot that is won is two round trips, one that is lost is one. It is stored under a subject of its own, and so is its end:
/// a stream with very many of them needs memory on the server, so keep `history_size` as small as you can use it.
///
/// Due times are on the clock of the server that leads the stream, so those of a cluster's servers must agree, as their machines'
/// time service sees to. What the server has written it syncs to its disk only every two minutes (`sync_interval`): a machine
/// that goes down may forget the latest slots, unless there are replicas.
///
/// ```
/// use std::time::Duration;
///
/// use anarchon::NatsBackend;
///
/// let backend = NatsBackend::new("nats://n1:4222,nats://n2:4222").replicas(3).duplicate_window(Duration::from_secs(600));
/// # drop(backend);
/// ```
pub struct NatsBackend {
    store: Store,
}

impl NatsBackend {
    /// The servers at these URLs, or at `host` or `host:port`, with commas between them. What is wrong with them is an error
    /// of `start()`, and so is it when none answers.
    #[must_use]
    pub fn new(servers: impl AsRef<str>) -> Self {
        Self { store: Store::new(Address::at(servers.as_ref())) }
    }

    /// A connection that the application has. It is never closed.
    ///
    /// It tells no address, so it is used itself, and `start()` warns about that: claims wait behind the application's
    /// messages, and depend on the runtime that it was made on. Prefer [`new`](Self::new).
    #[must_use]
    pub fn from_client(client: Client) -> Self {
        Self { store: Store::new(Address::Given(client)) }
    }

    /// The servers, and the stream and its prefix, that a URL names, as in `nats://n1:4222?stream=BILLING&prefix=billing.`.
    pub(crate) fn open(url: &str) -> Result<Self, String> {
        let (servers, query) = url.split_once('?').unwrap_or((url, ""));
        let bare = servers.strip_prefix("nats:").is_some_and(|rest| rest.is_empty() || rest == "//");
        let mut backend = if bare { Self::default() } else { Self::new(servers) };
        for option in query.split('&').filter(|option| !option.is_empty()) {
            backend = match option.split_once('=') {
                Some(("stream", stream)) => backend.stream(stream),
                Some(("prefix", prefix)) => backend.prefix(prefix),
                Some(("replicas", count)) => {
                    backend.replicas(count.parse().map_err(|_| "`replicas` must be a number".to_owned())?)
                }
                _ => return Err("of options there are `stream`, `prefix` and `replicas`".to_owned()),
            };
        }
        Ok(backend)
    }

    /// The stream's name: `CRON` unless set. Services that share servers need one each, and a [`prefix`](Self::prefix) each. At
    /// most 128 letters, digits, `_` and `-`; anything else is an error of `start()`.
    #[must_use]
    pub fn stream(mut self, stream: impl Into<String>) -> Self {
        self.store.stream = stream.into();
        self
    }

    /// What the stream's subjects begin with: `cron.` unless set. Letters, digits, `_` and `-` in parts that each end with a
    /// dot; anything else is an error of `start()`, and so is it when the stream that is there has other subjects.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.store.prefix = prefix.into();
        self
    }

    /// How long a decided slot is remembered: 5 minutes unless set, from 100 ms to 7 days. A job whose `jitter` and `max_late`
    /// together are not shorter is refused when it is added.
    ///
    /// It is a setting of the stream, which all instances must have alike: `start()` is refused, with both values, when the
    /// stream that is there has another one.
    #[must_use]
    pub fn duplicate_window(mut self, window: Duration) -> Self {
        self.store.window = window;
        self
    }

    /// How many runs of each job are kept at least: 1000 unless set. All jobs have the same: the largest that any instance, or
    /// any job's own `history_size`, asks for. It never gets smaller by itself.
    #[must_use]
    pub fn history_size(mut self, size: u32) -> Self {
        self.store.size = size;
        self
    }

    /// On how many servers of a cluster the stream is kept: 1 unless set. A stream that has fewer is given more, one that has
    /// more keeps them.
    #[must_use]
    pub fn replicas(mut self, count: u32) -> Self {
        self.store.replicas = count;
        self
    }

    /// How to connect: with TLS, with credentials or an nkey. Has no effect on [`from_client`](Self::from_client).
    #[must_use]
    pub fn connect_options(mut self, options: ConnectOptions) -> Self {
        self.store.link = self.store.link.with_options(options);
        self
    }
}

impl Default for NatsBackend {
    /// The server on this machine, at port 4222.
    fn default() -> Self {
        Self::new(DEFAULT_SERVER)
    }
}

impl From<Client> for NatsBackend {
    fn from(client: Client) -> Self {
        Self::from_client(client)
    }
}

/// The servers that `NATS_URL` names, or the one on this machine.
#[diagnostic::do_not_recommend]
impl FromEnv for NatsBackend {
    fn from_env() -> Result<Self, Error> {
        Ok(set("NATS_URL").map_or_else(Self::default, Self::new))
    }
}

impl fmt::Debug for NatsBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsBackend")
            .field("servers", self.store.link.address())
            .field("stream", &self.store.stream)
            .field("prefix", &self.store.prefix)
            .field("duplicate_window", &self.store.window)
            .field("history_size", &self.store.size)
            .field("replicas", &self.store.replicas)
            .finish()
    }
}

/// The one answer of a call about one thing.
fn only<T>(mut answers: Vec<Result<T, BackendError>>) -> Result<T, BackendError> {
    answers.pop().unwrap_or_else(|| Err(BackendError::new(NAME, BackendErrorKind::Unknown, "the store gave no answer")))
}

impl Backend for NatsBackend {
    type Strength = ClaimOnly;

    const PLAIN_NAMES: bool = true;

    fn name(&self) -> &str {
        NAME
    }

    fn memory(&self) -> Option<Duration> {
        Some(self.store.window)
    }

    fn check_job(&self, limits: &JobLimits) -> Result<(), JobRefusal> {
        match subject::wrong_name(&limits.job) {
            Some(reason) => Err(JobRefusal::new("name", reason)),
            None => Ok(()),
        }
    }

    async fn connect(&self) -> Result<ServerInfo, BackendError> {
        self.store.connect().await
    }

    async fn clock(&self) -> Result<Option<i64>, BackendError> {
        self.store.now().await.map(Some)
    }

    async fn register(&self, jobs: &[Registration], _: Duration) -> Result<Timed<Vec<Registered>>, BackendError> {
        self.store.register(jobs).await
    }

    async fn claim_manual(&self, claim: &ManualClaim) -> Result<Timed<ManualOutcome>, BackendError> {
        self.store.claim_manual(claim).await
    }

    async fn finish(&self, finish: &Finish) -> Result<Timed<FinishOutcome>, BackendError> {
        only(self.finish_many(std::slice::from_ref(finish)).await)
    }

    async fn finish_many(&self, finishes: &[Finish]) -> Vec<Result<Timed<FinishOutcome>, BackendError>> {
        self.store.finish_many(finishes).await
    }

    async fn history(&self, job: &JobName, limit: u32) -> Result<Vec<Record>, BackendError> {
        self.store.history(job, limit).await
    }

    async fn trim(&self, jobs: &[Trim]) -> Result<(), BackendError> {
        self.store.trim(jobs).await
    }

    async fn close(&self) {
        self.store.link.close().await;
    }
}

impl ClaimBackend for NatsBackend {
    async fn claim(&self, claim: &SlotClaim) -> Result<Timed<SlotOutcome>, BackendError> {
        only(self.claim_many(std::slice::from_ref(claim)).await)
    }

    async fn claim_many(&self, claims: &[SlotClaim]) -> Vec<Result<Timed<SlotOutcome>, BackendError>> {
        self.store.claim_many(claims).await
    }
}
