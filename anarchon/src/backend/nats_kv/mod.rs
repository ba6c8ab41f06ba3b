//! NATS with leases: a key of a JetStream key-value bucket holds all that is kept of a job, and is replaced only while its
//! revision is the one that was read.
//!
//! It is decided here, by the rules in Rust that the memory store uses, on the clock of the broker (`store` says how). The
//! bucket is on disk and remembers up to the trim mark of each job; with three replicas it outlives the loss of a server, as
//! what is acknowledged is on two of them. NATS 2.9 or newer.

mod key;
mod store;

use std::fmt;
use std::time::Duration;

use async_nats::{Client, ConnectOptions};

use self::store::Store;
use super::jetstream::{Address, finds_servers};
use super::state::JobState;
use super::{Backend, HistoryByAge, LeaseBackend, Leases, ServerInfo, only};
use crate::error::BackendError;
use crate::run::{
    ActiveRun, Beat, BeatOutcome, ClaimOutcome, Finish, FinishOutcome, KnownJob, ManualClaim, ManualOutcome, Pause,
    Record, Registered, Registration, Release, ReleaseOutcome, RunClaim, Timed, Trim,
};
use crate::slot::JobName;

const NAME: &str = "nats:kv";
const DEFAULT_BUCKET: &str = "anarchon";

/// Looking through all jobs at every registration would make many registrations slow.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// A backend with leases on NATS, in a JetStream key-value bucket.
///
/// Nothing connects before `start()`. Instances of one service need the same bucket; services that share servers need one
/// each.
///
/// | option | default | meaning |
/// |---|---|---|
/// | [`new`](Self::new) | `nats://localhost:4222` | where it is: URLs, or `host:port`, with commas between them |
/// | [`bucket`](Self::bucket) | `anarchon` | keeps services that share servers apart; made unless it is there |
/// | [`replicas`](Self::replicas) | 1 | on how many servers of a cluster the bucket is kept |
/// | [`connect_options`](Self::connect_options) | | TLS, credentials |
///
/// A claim that is won is two round trips, a read and a write, and one that is lost is one. A job's whole state is written each
/// time, some 60 bytes for each attempt of its history, so keep `history_size` moderate for jobs that are due often. What does
/// not go into one message (`max_payload` of the server, 1 MB unless set, for some ten thousand attempts) is trimmed, the
/// oldest first, whatever `history_size` says.
///
/// **Clocks.** Leases and due times are on the clock of the server that leads the bucket's stream. The clocks of a cluster's
/// servers must agree, as their machines' time service sees to: when another server becomes leader, its clock counts.
///
/// **What the servers forget.** One server writes to its disk at once, but syncs that only every two minutes (`sync_interval`):
/// it forgets nothing when its process is killed, and may forget the latest writes when its machine goes down. With
/// [`replicas`](Self::replicas) of 3, what is acknowledged is on two servers at least.
///
/// ```
/// use anarchon::NatsKvBackend;
///
/// let backend = NatsKvBackend::new("nats://n1:4222,nats://n2:4222,nats://n3:4222").bucket("billing").replicas(3);
/// # drop(backend);
/// ```
pub struct NatsKvBackend {
    store: Store,
}

impl NatsKvBackend {
    /// The servers at these URLs, or at `host` or `host:port`, with commas between them. What is wrong with them is an error
    /// of `start()`, and so is it when none answers.
    #[must_use]
    pub fn new(servers: impl AsRef<str>) -> Self {
        Self { store: Store::new(Address::at(servers.as_ref()), DEFAULT_BUCKET) }
    }

    /// A connection that the application has. It is never closed.
    ///
    /// It tells no address, so it is used itself, and `start()` warns about that: leases wait behind the application's
    /// messages, and depend on the runtime that it was made on. Prefer [`new`](Self::new).
    #[must_use]
    pub fn from_client(client: Client) -> Self {
        Self { store: Store::new(Address::Given(client), DEFAULT_BUCKET) }
    }

    /// The servers, the bucket and the replicas that a URL names, as in `nats-kv://n1:4222,n2:4222?bucket=billing&replicas=3`.
    pub(crate) fn open(url: &str) -> Result<Self, String> {
        let (servers, query) = url.split_once('?').unwrap_or((url, ""));
        let servers = servers.strip_prefix("nats-kv:").unwrap_or(servers);
        let servers = servers.strip_prefix("//").unwrap_or(servers);
        let mut backend = if servers.is_empty() { Self::default() } else { Self::new(servers) };
        for option in query.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("bucket", bucket)) => backend = backend.bucket(bucket),
                Some(("replicas", count)) => {
                    let count = count.parse().map_err(|_| "`replicas` must be a number".to_owned())?;
                    backend = backend.replicas(count);
                }
                _ => return Err("of options there are `bucket` and `replicas`".to_owned()),
            }
        }
        Ok(backend)
    }

    /// The bucket's name: `anarchon` unless set. At most 128 letters, digits, `_` and `-`; anything else is an error of
    /// `start()`.
    #[must_use]
    pub fn bucket(mut self, bucket: impl Into<String>) -> Self {
        self.store.bucket = bucket.into();
        self
    }

    /// On how many servers of a cluster the bucket is kept: 1 unless set. 3 is what a cluster is for: then the loss of one
    /// server costs the time until another leads, some seconds, and nothing else. A bucket that has fewer is given more, one
    /// that has more keeps them.
    #[must_use]
    pub fn replicas(mut self, count: u32) -> Self {
        self.store.replicas = count;
        self
    }

    /// How to connect: with TLS, with credentials or an nkey. Has no effect on [`from_client`](Self::from_client).
    ///
    /// ```
    /// use anarchon::NatsKvBackend;
    /// use async_nats::ConnectOptions;
    ///
    /// let options = ConnectOptions::with_token("secret".into()).require_tls(true);
    /// let backend = NatsKvBackend::new("nats.internal").connect_options(options);
    /// # drop(backend);
    /// ```
    #[must_use]
    pub fn connect_options(mut self, options: ConnectOptions) -> Self {
        self.store.link = self.store.link.with_options(options);
        self
    }
}

finds_servers!(NatsKvBackend);

impl fmt::Debug for NatsKvBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsKvBackend")
            .field("servers", self.store.link.address())
            .field("bucket", &self.store.bucket)
            .field("replicas", &self.store.replicas)
            .finish()
    }
}

/// What is answered holds without anything being written.
fn as_it_is<R>(_: &R) -> bool {
    false
}

impl Backend for NatsKvBackend {
    type Strength = Leases;

    fn name(&self) -> &str {
        NAME
    }

    fn history_by_age(&self) -> bool {
        true
    }

    async fn connect(&self) -> Result<ServerInfo, BackendError> {
        self.store.connect().await
    }

    async fn known(&self, jobs: &[JobName]) -> Result<Option<Vec<KnownJob>>, BackendError> {
        let all = if jobs.is_empty() { self.store.jobs().await? } else { Vec::new() };
        let mut known = Vec::new();
        for job in if jobs.is_empty() { &all } else { jobs } {
            known.extend(self.store.look(job, |state| state.known(job)).await?);
        }
        known.sort_by(|a: &KnownJob, b| a.job.cmp(&b.job));
        Ok(Some(known))
    }

    async fn clock(&self) -> Result<Option<i64>, BackendError> {
        self.store.now().await.map(Some)
    }

    async fn register(
        &self,
        jobs: &[Registration],
        forget_after: Duration,
    ) -> Result<Timed<Vec<Registered>>, BackendError> {
        let step = |state: &mut JobState, registration: &Registration, now| state.register(registration, now);
        let answers = self.store.steps(jobs, |r| &r.job, step, as_it_is).await;
        let mut registered = Vec::with_capacity(jobs.len());
        for answer in answers {
            registered.push(answer?.value);
        }
        let now = self.store.now().await?;
        if self.store.sweeps(SWEEP_EVERY.min(forget_after), now) {
            let registered = jobs.iter().map(|registration| &registration.job).collect();
            self.store.forget(forget_after, now, &registered).await?;
        }
        Ok(Timed::at(registered, now))
    }

    async fn claim_manual(&self, claim: &ManualClaim) -> Result<Timed<ManualOutcome>, BackendError> {
        self.store.step(&claim.job, |job, now| job.claim_manual(claim, now), as_it_is).await
    }

    async fn finish(&self, finish: &Finish) -> Result<Timed<FinishOutcome>, BackendError> {
        only(NAME, self.finish_many(std::slice::from_ref(finish)).await)
    }

    async fn finish_many(&self, finishes: &[Finish]) -> Vec<Result<Timed<FinishOutcome>, BackendError>> {
        let lost = |outcome: &FinishOutcome| *outcome == FinishOutcome::Lost;
        self.store.steps(finishes, |finish| &finish.run.job, JobState::finish, lost).await
    }

    async fn history(&self, job: &JobName, limit: u32) -> Result<Vec<Record>, BackendError> {
        Ok(self.store.look(job, |state| state.history(job, limit)).await?.unwrap_or_default())
    }

    async fn trim(&self, jobs: &[Trim]) -> Result<(), BackendError> {
        let trimmed = self.store.steps(jobs, |trim| &trim.job, JobState::trim, as_it_is).await;
        trimmed.into_iter().try_for_each(|trimmed| trimmed.map(drop))
    }

    async fn close(&self) {
        self.store.link.close().await;
    }
}

impl LeaseBackend for NatsKvBackend {
    async fn claim(&self, claim: &RunClaim) -> Result<Timed<ClaimOutcome>, BackendError> {
        only(NAME, self.claim_many(std::slice::from_ref(claim)).await)
    }

    async fn claim_many(&self, claims: &[RunClaim]) -> Vec<Result<Timed<ClaimOutcome>, BackendError>> {
        let gone = |outcome: &ClaimOutcome| *outcome == ClaimOutcome::Gone;
        self.store.steps(claims, |claim| &claim.job, JobState::claim, gone).await
    }

    async fn heartbeat(&self, beat: &Beat) -> Result<Timed<BeatOutcome>, BackendError> {
        only(NAME, self.heartbeat_many(std::slice::from_ref(beat)).await)
    }

    async fn heartbeat_many(&self, beats: &[Beat]) -> Vec<Result<Timed<BeatOutcome>, BackendError>> {
        let lost = |outcome: &BeatOutcome| *outcome == BeatOutcome::Lost;
        self.store.steps(beats, |beat| &beat.run.job, JobState::heartbeat, lost).await
    }

    async fn release(&self, release: &Release) -> Result<Timed<ReleaseOutcome>, BackendError> {
        only(NAME, self.release_many(std::slice::from_ref(release)).await)
    }

    async fn release_many(&self, releases: &[Release]) -> Vec<Result<Timed<ReleaseOutcome>, BackendError>> {
        let lost = |outcome: &ReleaseOutcome| *outcome == ReleaseOutcome::Lost;
        self.store.steps(releases, |release| &release.run.job, JobState::release, lost).await
    }

    async fn active(&self, jobs: &[JobName]) -> Result<Timed<Vec<ActiveRun>>, BackendError> {
        let all = if jobs.is_empty() { self.store.jobs().await? } else { Vec::new() };
        let jobs = if jobs.is_empty() { &all } else { jobs };
        let step = |state: &mut JobState, _: &JobName, now| {
            let mut runs = Vec::new();
            state.active(now, &mut runs);
            runs
        };
        let mut runs = Vec::new();
        let mut earliest = None;
        for of_job in self.store.steps(jobs, |job| job, step, as_it_is).await {
            let of_job = of_job?;
            earliest = earliest.map_or(of_job.store_ms, |earliest: i64| of_job.store_ms.map(|now| now.min(earliest)));
            runs.extend(of_job.value);
        }
        runs.sort_by(|a: &ActiveRun, b| a.run.cmp(&b.run));
        match earliest {
            Some(now) => Ok(Timed::at(runs, now)),
            None => Ok(Timed::at(runs, self.store.now().await?)),
        }
    }

    async fn set_paused(&self, job: &JobName, pause: Option<&Pause>) -> Result<(), BackendError> {
        let set = |state: &mut JobState, now| state.paused = pause.map(|p| Box::new(Pause { at: now, ..p.clone() }));
        self.store.step(job, set, as_it_is).await.map(drop)
    }

    async fn paused(&self, job: &JobName) -> Result<Option<Pause>, BackendError> {
        Ok(self.store.look(job, |state| state.paused.as_deref().cloned()).await?.flatten())
    }
}

impl HistoryByAge for NatsKvBackend {}

/// The clock is an argument of each step.
#[cfg(feature = "testing")]
impl crate::testing::differential::HandClocked for NatsKvBackend {
    async fn set_clock(&self, now: i64) {
        self.store.hand.store(now, std::sync::atomic::Ordering::Relaxed);
    }
}
