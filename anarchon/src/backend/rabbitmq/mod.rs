//! RabbitMQ: claims by declaring a queue for each slot, which goes by itself after a while. Claims alone, no leases.
//!
//! The broker remembers a decided slot for `slot_ttl`, through restarts and crashes of its own. It tells no time, so the
//! instances' own clocks say when a slot is due. RabbitMQ 3.9 or newer.

mod address;
mod claim;
mod error;
mod history;
mod link;
mod names;
mod record;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use lapin::options::QueueDeleteOptions;
use lapin::tcp::OwnedTLSConfig;
use lapin::uri::AMQPUri;

use self::address::Address;
use self::claim::Declared;
use self::error::{NAME, error};
use self::history::{History, LARGEST};
use self::link::Link;
use self::names::Names;
use self::record::Entry;
use super::{Backend, ClaimBackend, ClaimOnly, JobLimits, JobRefusal, ServerInfo, only, plain_name};
use crate::clock::{Clock as _, SystemClock, to_ms};
use crate::error::{BackendError, BackendErrorKind, Error};
use crate::lease::attempt_as_run;
use crate::run::{
    Finish, FinishOutcome, ManualClaim, ManualOutcome, Record, Registered, Registration, SlotClaim, SlotOutcome, Timed,
    Trim,
};
use crate::scheduler::entry::{FromEnv, set};
use crate::slot::{JobName, Slot, Token};

const DEFAULT_BROKER: &str = "amqp://localhost";
const DEFAULT_PREFIX: &str = "cron.";
const DEFAULT_SLOT_TTL: Duration = Duration::from_secs(300);

/// The broker takes up to 2^32 ms.
const LONGEST_SLOT_TTL: Duration = Duration::from_secs(49 * 86_400);

/// How many calls of one batch are made at once; the connection has as many channels.
const AT_ONCE: usize = 16;

/// How long one batch of claims may take, with the wait for a connection: the scheduler gives a whole batch up after 5 s,
/// and what has been decided by then is to be known.
const BATCH: Duration = Duration::from_millis(3500);

/// How long a won claim waits for its record of history. It is won without.
const RECORD: Duration = Duration::from_secs(1);

/// A backend on RabbitMQ, without leases: it says who was first.
///
/// For each slot a queue is declared, in which nothing ever is: the first to declare it has won, and it goes by itself
/// after [`slot_ttl`](Self::slot_ttl). Nothing connects before `start()`.
///
/// | option | default | meaning |
/// |---|---|---|
/// | [`new`](Self::new) | `amqp://localhost` | where it is: `amqp://user:password@host:port/vhost`, `amqps://` (with TLS), `host:port` |
/// | [`prefix`](Self::prefix) | `cron.` | keeps services that share a virtual host apart |
/// | [`slot_ttl`](Self::slot_ttl) | 5 minutes | how long a decided slot is remembered |
/// | [`tls`](Self::tls) | | certificates, for `amqps://` |
///
/// - A run whose runner dies is lost: there is no takeover, catch-up, overlap protection or retry. Options that need
///   leases do not compile.
/// - Job names are of letters, digits, `_` and `-`: they are a part of queues' names.
/// - The broker tells no time, so each instance goes by its own clock. Clocks that differ by more than `slot_ttl` less
///   `max_late` and `jitter` let a slot run twice.
/// - A policy whose `expires` is shorter than `slot_ttl` makes the broker forget slots early, and nobody is told. Keep
///   policies away from queues of this prefix.
/// - In a cluster, a slot whose queue is on a node that is down can be decided by nobody until the node is back, and a
///   cluster of RabbitMQ 4 without a majority decides nothing at all: such claims are repeated until `max_late`, then
///   missed. While a cluster is partitioned and goes on on both sides (`ignore`), both sides let a claim win.
/// - The history of each job is a queue, too, of `history_size` runs, 5000 at most. It goes when no instance has had the
///   job for 45 days.
/// - The user must be allowed to configure, write and read queues that begin with the prefix, and to publish to the
///   default exchange.
///
/// `amqps://` needs the cargo feature `tls`.
///
/// ```
/// use std::time::Duration;
///
/// use anarchon::RabbitMqBackend;
///
/// let backend = RabbitMqBackend::new("amqp://user:password@mq.internal/billing")
///     .prefix("billing.cron.")
///     .slot_ttl(Duration::from_secs(600));
/// # drop(backend);
/// ```
#[derive(Clone)]
pub struct RabbitMqBackend {
    store: Arc<Store>,
}

struct Store {
    claims: Link,
    history: History,
    names: Names,
    slot_ttl: Duration,
}

impl RabbitMqBackend {
    /// The broker at a URL, or at `host` or `host:port`. What is wrong with it is an error of `start()`, and so is a
    /// broker that does not answer.
    ///
    /// A URL that ends in `/` names the virtual host whose name is empty; without it, the virtual host is `/`.
    #[must_use]
    pub fn new(location: impl AsRef<str>) -> Self {
        Self::on(Address::at(location.as_ref()), Names::new(DEFAULT_PREFIX), DEFAULT_SLOT_TTL)
    }

    /// The broker that the application's own connections lead to.
    ///
    /// A [`lapin::Connection`] cannot be passed in: it does not tell where it leads, and each lost claim would cost it one
    /// of its channels for good. The backend makes connections of its own, two of them.
    ///
    /// ```
    /// use anarchon::RabbitMqBackend;
    ///
    /// let uri: lapin::uri::AMQPUri = "amqp://mq.internal".parse()?;
    /// let backend = RabbitMqBackend::from_uri(uri.clone()); // beside `lapin::Connection::connect_uri(uri, …)`
    /// # drop(backend);
    /// # Ok::<(), String>(())
    /// ```
    #[must_use]
    pub fn from_uri(uri: AMQPUri) -> Self {
        Self::on(Address::uri(uri), Names::new(DEFAULT_PREFIX), DEFAULT_SLOT_TTL)
    }

    fn on(address: Address, names: Names, slot_ttl: Duration) -> Self {
        let claims = Link::new(address.clone(), "anarchon: claims", false);
        let history = History::new(Link::new(address, "anarchon: history", true));
        Self { store: Arc::new(Store { claims, history, names, slot_ttl }) }
    }

    fn address(&self) -> &Address {
        self.store.claims.address()
    }

    /// What all queues begin with: `cron.` unless set. Services that share a virtual host need one each; the instances of
    /// one service need the same. One to 96 ASCII characters; anything else is an error of `start()`.
    #[must_use]
    pub fn prefix(self, prefix: impl Into<String>) -> Self {
        Self::on(self.address().clone(), Names::new(prefix), self.store.slot_ttl)
    }

    /// How long a decided slot is remembered: 5 minutes unless set, from 1 second to 49 days. It must be longer than a
    /// job's `jitter` and `max_late` together, which is checked when the job is added. Each slot is a queue of the broker
    /// for so long.
    ///
    /// Instances that disagree still let only one of them run a slot, and log an error with both values.
    #[must_use]
    pub fn slot_ttl(self, slot_ttl: Duration) -> Self {
        Self::on(self.address().clone(), self.store.names.clone(), slot_ttl)
    }

    /// Certificates for `amqps://`: the broker's authority, the client's own.
    #[must_use]
    pub fn tls(self, config: OwnedTLSConfig) -> Self {
        Self::on(self.address().clone().with_tls(config), self.store.names.clone(), self.store.slot_ttl)
    }
}

impl Default for RabbitMqBackend {
    /// The broker on this machine, at port 5672, as its user `guest`.
    fn default() -> Self {
        Self::new(DEFAULT_BROKER)
    }
}

impl From<AMQPUri> for RabbitMqBackend {
    fn from(uri: AMQPUri) -> Self {
        Self::from_uri(uri)
    }
}

/// The broker that `AMQP_URL` names, or the one on this machine.
#[diagnostic::do_not_recommend]
impl FromEnv for RabbitMqBackend {
    fn from_env() -> Result<Self, Error> {
        Ok(set("AMQP_URL").map_or_else(Self::default, Self::new))
    }
}

impl fmt::Debug for RabbitMqBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RabbitMqBackend")
            .field("broker", self.address())
            .field("prefix", &self.store.names.prefix())
            .field("slot_ttl", &self.store.slot_ttl)
            .finish()
    }
}

impl Store {
    fn wrong(&self) -> Option<String> {
        if let Address::Wrong(why) = self.claims.address() {
            return Some(why.clone());
        }
        let ttl = self.slot_ttl;
        let fits = ttl >= Duration::from_secs(1) && ttl <= LONGEST_SLOT_TTL;
        self.names.wrong().or_else(|| (!fits).then(|| format!("`slot_ttl` is {ttl:?}; it must be from 1 s to 49 days")))
    }

    /// Claims a queue that nobody else can know, twice: a broker that knows no such arguments, or a user that may not
    /// declare, is found out before a slot depends on it.
    async fn try_out(&self) -> Result<(), BackendError> {
        let queue = self.names.trial(Token::random());
        let ttl = self.slot_ttl;
        let first = claim::declare(&self.claims, &queue, Token::random(), ttl).await?;
        let second = claim::declare(&self.claims, &queue, Token::random(), ttl).await?;
        let deleted = self.claims.call(|channel| {
            let queue = queue.as_str().into();
            async move { channel.queue_delete(queue, QueueDeleteOptions::default()).await }
        });
        deleted.await.map_err(|failure| failure.sort())?;
        if (first, second) != (Declared::Ours, Declared::Taken) {
            let what = "the broker lets two declare the same queue, so it cannot say who was first; RabbitMQ 3.9 or newer is needed";
            return Err(error(BackendErrorKind::Config, what));
        }
        Ok(())
    }

    async fn decide(&self, claim: &SlotClaim) -> Result<SlotOutcome, BackendError> {
        // Past its memory the broker would let a second one win: this process may have been frozen on the way here.
        let age = SystemClock.wall_ms().saturating_sub(claim.slot.ms());
        if age >= to_ms(self.slot_ttl) {
            return Ok(SlotOutcome::Late);
        }
        let queue = self.names.slot(&claim.job, claim.slot);
        match claim::declare(&self.claims, &queue, claim.token, self.slot_ttl).await? {
            Declared::Ours => Ok(SlotOutcome::Won),
            Declared::Taken => Ok(SlotOutcome::Taken),
            Declared::Otherwise(said) => {
                tracing::error!(
                    job = %claim.job, slot = %claim.slot, slot_ttl = ?self.slot_ttl, %said,
                    "this slot was taken by an instance with other settings; give all instances the same `slot_ttl`"
                );
                Ok(SlotOutcome::Taken)
            }
        }
    }

    /// Notes what was won. A history that cannot be written takes nothing away from that.
    async fn note(&self, claim: &SlotClaim) {
        let entry = Entry::claimed(claim, SystemClock.wall_ms());
        let written = tokio::time::timeout(RECORD, self.history.write(&self.names, &claim.job, &entry)).await;
        let error = match written {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.message().to_owned(),
            Err(_late) => "the broker did not answer in time".to_owned(),
        };
        tracing::warn!(job = %claim.job, slot = %claim.slot, %error, "the history lacks the begin of this run");
    }
}

impl Backend for RabbitMqBackend {
    type Strength = ClaimOnly;

    const PLAIN_NAMES: bool = true;

    fn name(&self) -> &str {
        NAME
    }

    fn memory(&self) -> Option<Duration> {
        Some(self.store.slot_ttl)
    }

    fn check_job(&self, limits: &JobLimits) -> Result<(), JobRefusal> {
        plain_name::<Self>(&limits.job)?;
        self.store.names.refuse(&limits.job).map_err(|reason| JobRefusal::new("name", reason))
    }

    async fn connect(&self) -> Result<ServerInfo, BackendError> {
        let store = &self.store;
        if let Some(wrong) = store.wrong() {
            return Err(error(BackendErrorKind::Config, wrong));
        }
        let channels = store.claims.channels().await.map_err(|failure| failure.sort())?;
        if (1..4).contains(&channels) {
            let few = format!("the broker allows {channels} channels on a connection, and 4 are needed");
            return Err(error(BackendErrorKind::Config, few));
        }
        store.try_out().await?;
        store.history.link.channels().await.map_err(|failure| failure.sort())?;
        Ok(ServerInfo::new("RabbitMQ"))
    }

    async fn clock(&self) -> Result<Option<i64>, BackendError> {
        Ok(None)
    }

    /// The floor is the local start. What is written is the history, empty, so that it stays.
    async fn register(&self, jobs: &[Registration], _: Duration) -> Result<Timed<Vec<Registered>>, BackendError> {
        if let Some(large) = jobs.iter().find(|registration| registration.retention.size > LARGEST) {
            let (job, size) = (&large.job, large.retention.size);
            let what = format!("job `{job}`: `history_size` is {size}, and RabbitMQ keeps at most {LARGEST}");
            return Err(error(BackendErrorKind::Config, what));
        }
        let floor = SystemClock.wall_ms();
        let (history, names) = (&self.store.history, &self.store.names);
        let declared = jobs.iter().map(|registration| history.declare(names, &registration.job));
        for declared in join_all(declared).await {
            declared?;
        }
        Ok(Timed::clockless(jobs.iter().map(|_| Registered::new(floor)).collect()))
    }

    /// Its token is its own, and the time is the caller's: there is nothing to decide.
    async fn claim_manual(&self, claim: &ManualClaim) -> Result<Timed<ManualOutcome>, BackendError> {
        self.store.history.write(&self.store.names, &claim.job, &Entry::started(claim)).await?;
        Ok(Timed::clockless(ManualOutcome::Won { slot: Slot::from_ms(claim.now), fence: None }))
    }

    async fn finish(&self, finish: &Finish) -> Result<Timed<FinishOutcome>, BackendError> {
        self.store.history.write(&self.store.names, &finish.run.job, &Entry::ended(finish)).await?;
        let run = attempt_as_run(finish.ending.status());
        Ok(Timed::clockless(FinishOutcome::Recorded { run, retry_in: None }))
    }

    async fn history(&self, job: &JobName, limit: u32) -> Result<Vec<Record>, BackendError> {
        let entries = self.store.history.read(&self.store.names, job).await?;
        let records = record::join(job, entries).into_iter().map(Record::Attempt).collect();
        Ok(crate::history::newest(records, limit))
    }

    async fn trim(&self, jobs: &[Trim]) -> Result<(), BackendError> {
        let (history, names) = (&self.store.history, &self.store.names);
        let mut done = Ok(());
        for trim in jobs {
            // A history that somebody is reading just now keeps none of the others from being trimmed.
            done = done.and(history.trim(names, &trim.job, trim.retention.size).await);
        }
        done
    }

    async fn close(&self) {
        self.store.claims.close().await;
        self.store.history.link.close().await;
    }
}

impl ClaimBackend for RabbitMqBackend {
    async fn claim(&self, claim: &SlotClaim) -> Result<Timed<SlotOutcome>, BackendError> {
        only(NAME, self.claim_many(std::slice::from_ref(claim)).await)
    }

    async fn claim_many(&self, claims: &[SlotClaim]) -> Vec<Result<Timed<SlotOutcome>, BackendError>> {
        let store = &self.store;
        let end = tokio::time::Instant::now() + BATCH;
        let calls: Vec<_> = claims.iter().map(|claim| tokio::time::timeout_at(end, store.decide(claim))).collect();
        let outcomes: Vec<_> = futures_util::stream::iter(calls)
            .buffered(AT_ONCE)
            .map(|answer| {
                answer
                    .unwrap_or_else(|_late| Err(error(BackendErrorKind::Unknown, "the broker did not answer in time")))
            })
            .collect()
            .await;
        let won = claims.iter().zip(&outcomes).filter(|(_, outcome)| matches!(outcome, Ok(SlotOutcome::Won)));
        join_all(won.map(|(claim, _)| store.note(claim))).await;
        outcomes.into_iter().map(|outcome| outcome.map(Timed::clockless)).collect()
    }
}
