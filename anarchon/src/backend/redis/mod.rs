//! Redis and Valkey: claims, leases and history by scripts, each of which is one atomic step on the server's clock.
//!
//! Everything that is kept of a job is under one hash tag, and a script about many jobs is one round trip. The server
//! remembers up to the trim mark of each job, for as long as it keeps its data: with an append-only file through a crash
//! of its own, and never through a failover to a replica that had not received the latest writes. Redis 5 or newer, or
//! any Valkey.

mod address;
mod calls;
mod cluster;
mod error;
mod first;
mod keys;
mod lease;
mod link;
mod pack;
mod reply;
mod script;
mod server;
mod strategy;

use std::fmt;
use std::time::Duration;

use redis::Client;
use redis::aio::ConnectionLike;

use self::address::Address;
use self::calls::{Calls, only};
use self::keys::Keys;
use self::link::Replicas;
use self::strategy::Claims;
use self::strategy::sealed::{Kept as _, Sealed as _};
pub use self::strategy::{Idmp, Lease, Script, Strategy, StreamId, ValkeyStrategy};
use super::{
    AnyStrength, Backend, ClaimBackend, ClaimOnly, HistoryByAge, JobLimits, JobRefusal, LeaseBackend, Leases,
    ServerInfo,
};
use crate::error::{BackendError, Error};
use crate::run::{
    ActiveRun, Beat, BeatOutcome, ClaimOutcome, Finish, FinishOutcome, KnownJob, ManualClaim, ManualOutcome, Pause,
    Record, Registered, Registration, Release, ReleaseOutcome, RunClaim, SlotClaim, SlotOutcome, Timed, Trim,
};
use crate::scheduler::entry::{FromEnv, set};
use crate::slot::JobName;

const DEFAULT_SERVER: &str = "redis://localhost:6379";
const DEFAULT_PREFIX: &str = "cron:";

/// What a backend passes on to its store whatever the strategy.
macro_rules! calls_of_any_strategy {
    () => {
        fn history_by_age(&self) -> bool {
            true
        }

        async fn connect(&self) -> Result<ServerInfo, BackendError> {
            self.store.connect().await
        }

        async fn clock(&self) -> Result<Option<i64>, BackendError> {
            self.store.calls.clock().await
        }

        async fn register(
            &self,
            jobs: &[Registration],
            forget_after: Duration,
        ) -> Result<Timed<Vec<Registered>>, BackendError> {
            self.store.register(jobs, forget_after).await
        }

        async fn claim_manual(&self, claim: &ManualClaim) -> Result<Timed<ManualOutcome>, BackendError> {
            self.store.claim_manual(claim).await
        }

        async fn finish(&self, finish: &Finish) -> Result<Timed<FinishOutcome>, BackendError> {
            only(self.name(), self.store.finish_many(std::slice::from_ref(finish)).await)
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
            self.store.calls.close();
        }
    };
}

/// Both servers have one implementation, and each a type, since not every strategy is on both.
macro_rules! flavour {
    ($(#[$doc:meta])* $backend:ident with $strategy:ident called $name:ident at $variable:literal) => {
        $(#[$doc])*
        pub struct $backend<S: $strategy = Lease> {
            store: S::Store,
            strategy: S,
        }

        impl $backend<Lease> {
            /// The server at a URL, or at `host` or `host:port`. What is wrong with it is an error of `start()`, and so
            /// is a server that does not answer.
            #[must_use]
            pub fn new(location: impl AsRef<str>) -> Self {
                Self::on(Address::at(location.as_ref()))
            }

            /// The server of a client that the application has.
            ///
            /// Only its address and settings are used: leases must not depend on the application's runtime, so the
            /// backend makes a connection of its own.
            #[must_use]
            pub fn from_client(client: Client) -> Self {
                Self::on(Address::client(client))
            }

            /// A connection that the application has, such as a `MultiplexedConnection` or a `ConnectionManager`, to one
            /// server. It is never closed.
            ///
            /// Such a connection tells no address, so it is used itself, and `start()` warns about that: leases wait
            /// behind the application's commands, and depend on the runtime that it was made on. Its own time limit for
            /// answers (half a second, unless set) counts as a lost answer, upon which calls are repeated. Prefer
            /// [`from_client`](Self::from_client).
            #[must_use]
            pub fn from_connection(connection: impl ConnectionLike + Clone + Send + Sync + 'static) -> Self {
                Self::on(Address::given(connection))
            }

            /// The cluster of a client that the application has. Only its addresses and settings are used: the backend makes
            /// connections of its own.
            ///
            /// A job's keys are on one node, and each call about a job is one script there; calls about many jobs are one
            /// script each, all under way at once. Times are those of the job's node, so the clocks of the nodes must agree,
            /// as their machines' time service sees to. After a failover the warning of
            /// [`wait_replicas`](Self::wait_replicas) holds.
            #[cfg(feature = "redis-cluster")]
            #[must_use]
            pub fn from_cluster(client: redis::cluster::ClusterClient) -> Self {
                Self::on(Address::Cluster(Box::new(client)))
            }

            /// The primary that the sentinels of a client name. Only their addresses, the name and the settings are used: the
            /// backend makes connections of its own, and asks the sentinels anew whenever it needs one.
            ///
            /// Calls fail while a failover is under way, and are repeated. What the new primary had not received is lost, as
            /// at [`wait_replicas`](Self::wait_replicas); and a primary that is cut off from its sentinels goes on until
            /// it notices, so `min-replicas-to-write 1` belongs in its settings.
            #[cfg(feature = "redis-sentinel")]
            #[must_use]
            pub fn from_sentinel(client: redis::sentinel::SentinelClient) -> Self {
                Self::on(Address::Sentinel(Box::new(tokio::sync::Mutex::new(client))))
            }

            fn on(address: Address) -> Self {
                let calls = Calls::new(Lease::$name, address, DEFAULT_PREFIX);
                Self { store: Lease.store(calls), strategy: Lease }
            }
        }

        impl<S: $strategy> $backend<S> {
            /// Decides by another strategy than [`Lease`]: one that is quicker to say, and can do less. The data of one
            /// strategy means nothing to another, so a change forgets what was decided; give it another
            /// [`prefix`](Self::prefix), and stop the instances with the old one first.
            #[must_use]
            pub fn strategy<T: $strategy>(self, strategy: T) -> $backend<T> {
                let calls = self.store.into_calls().renamed(T::$name);
                $backend { store: strategy.store(calls), strategy }
            }

            /// What all keys begin with: `cron:` unless set. Services that share a server need one each; the instances of
            /// one service need the same. At most 128 bytes, without braces and control characters; anything else is an
            /// error of `start()`.
            #[must_use]
            pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
                self.store.calls_mut().keys = Keys::new(prefix);
                self
            }

            /// A claim is won only once so many replicas have received it (`WAIT`); unless set, none is waited for.
            ///
            /// A server tells its replicas later what it has decided, so a failover can lose the claims, and the leases, of
            /// the last moments: then a slot is run a second time. This makes that unlikely, not impossible: a replica
            /// that has received a claim may still not be the one that is promoted, and heartbeats and ends are not
            /// waited for. If the replicas do not answer within `timeout`, the outcome is unknown and the claim is
            /// repeated, so with too few of them no slot is run. Calls that follow on the connection wait as long, so
            /// keep `timeout` well below the heartbeat.
            #[must_use]
            pub fn wait_replicas(mut self, count: u32, timeout: Duration) -> Self {
                self.store.calls_mut().replicas = Some(Replicas { count, timeout });
                self
            }
        }

        impl Default for $backend<Lease> {
            /// The server on this machine, at port 6379.
            fn default() -> Self {
                Self::new(DEFAULT_SERVER)
            }
        }

        impl From<Client> for $backend<Lease> {
            fn from(client: Client) -> Self {
                Self::from_client(client)
            }
        }

        #[doc = concat!("The server that `", $variable, "` names, or the one on this machine.")]
        #[diagnostic::do_not_recommend]
        impl<S: $strategy + Default> FromEnv for $backend<S>
        where
            Self: AnyStrength,
        {
            fn from_env() -> Result<Self, Error> {
                let found = set($variable).map_or_else($backend::<Lease>::default, $backend::<Lease>::new);
                Ok(found.strategy(S::default()))
            }
        }

        impl<S: $strategy + fmt::Debug> fmt::Debug for $backend<S> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($backend))
                    .field("server", self.store.calls().address())
                    .field("prefix", &self.store.calls().keys.prefix())
                    .field("strategy", &self.strategy)
                    .finish()
            }
        }

        impl Backend for $backend<Lease> {
            type Strength = Leases;

            fn name(&self) -> &str {
                Lease::$name
            }

            async fn known(&self, jobs: &[JobName]) -> Result<Option<Vec<KnownJob>>, BackendError> {
                self.store.known(jobs).await
            }

            calls_of_any_strategy!();
        }

        impl LeaseBackend for $backend<Lease> {
            async fn claim(&self, claim: &RunClaim) -> Result<Timed<ClaimOutcome>, BackendError> {
                only(Lease::$name, self.store.claim_many(std::slice::from_ref(claim)).await)
            }

            async fn claim_many(&self, claims: &[RunClaim]) -> Vec<Result<Timed<ClaimOutcome>, BackendError>> {
                self.store.claim_many(claims).await
            }

            async fn heartbeat(&self, beat: &Beat) -> Result<Timed<BeatOutcome>, BackendError> {
                only(Lease::$name, self.store.heartbeat_many(std::slice::from_ref(beat)).await)
            }

            async fn heartbeat_many(&self, beats: &[Beat]) -> Vec<Result<Timed<BeatOutcome>, BackendError>> {
                self.store.heartbeat_many(beats).await
            }

            async fn release(&self, release: &Release) -> Result<Timed<ReleaseOutcome>, BackendError> {
                only(Lease::$name, self.store.release_many(std::slice::from_ref(release)).await)
            }

            async fn release_many(&self, releases: &[Release]) -> Vec<Result<Timed<ReleaseOutcome>, BackendError>> {
                self.store.release_many(releases).await
            }

            async fn active(&self, jobs: &[JobName]) -> Result<Timed<Vec<ActiveRun>>, BackendError> {
                self.store.active(jobs).await
            }

            async fn set_paused(&self, job: &JobName, pause: Option<&Pause>) -> Result<(), BackendError> {
                self.store.set_paused(job, pause).await
            }

            async fn paused(&self, job: &JobName) -> Result<Option<Pause>, BackendError> {
                self.store.paused(job).await
            }
        }

        impl<S: $strategy> HistoryByAge for $backend<S> where Self: Backend {}

        impl<S: $strategy + Claims> Backend for $backend<S> {
            type Strength = ClaimOnly;

            fn name(&self) -> &str {
                S::$name
            }

            fn memory(&self) -> Option<Duration> {
                self.store.memory()
            }

            fn check_job(&self, limits: &JobLimits) -> Result<(), JobRefusal> {
                self.store.check_job(limits)
            }

            calls_of_any_strategy!();
        }

        impl<S: $strategy + Claims> ClaimBackend for $backend<S> {
            async fn claim(&self, claim: &SlotClaim) -> Result<Timed<SlotOutcome>, BackendError> {
                only(S::$name, self.store.claim_many(std::slice::from_ref(claim)).await)
            }

            async fn claim_many(&self, claims: &[SlotClaim]) -> Vec<Result<Timed<SlotOutcome>, BackendError>> {
                self.store.claim_many(claims).await
            }
        }

        /// The clock is an argument of each script.
        #[cfg(feature = "testing")]
        impl crate::testing::differential::HandClocked for $backend<Lease> {
            async fn set_clock(&self, now: i64) {
                self.store.calls.set_clock(now);
            }
        }
    };
}

flavour! {
    /// A backend on Redis; its type says by which strategy, [`Lease`] unless another is named.
    ///
    /// Each call is one script and one round trip, however many jobs it is about. Nothing connects before `start()`.
    /// `anarchon::main!(RedisBackend)` takes the server that `REDIS_URL` names, and so does a type with another strategy,
    /// such as `RedisBackend<StreamId>`, with that strategy's defaults.
    ///
    /// | option | default | meaning |
    /// |---|---|---|
    /// | [`new`](Self::new) | `redis://localhost:6379` | where it is: `redis://user:password@host:port/database`, `rediss://` (with TLS), `unix:///path`, `host:port` |
    /// | [`prefix`](Self::prefix) | `cron:` | keeps services that share a server apart |
    /// | [`wait_replicas`](Self::wait_replicas) | none | makes a claim wait for replication |
    /// | [`strategy`](Self::strategy) | [`Lease`] | how it is decided who runs a slot; the others hold no leases |
    ///
    /// `rediss://` needs the cargo feature `tls`.
    ///
    /// What the server forgets cannot be honoured: `start()` warns if its memory policy may evict keys, a server without
    /// an append-only file forgets all leases and the latest slots in a crash, and a failover may lose the writes of the
    /// last moments, after which a slot can be run a second time. Guard effects with [`Context::fence`](crate::Context::fence),
    /// which grows over a failover, too.
    ///
    /// ```
    /// use anarchon::RedisBackend;
    ///
    /// let backend = RedisBackend::new("redis://cache.internal:6379/2").prefix("billing:cron:");
    /// # drop(backend);
    /// ```
    RedisBackend with Strategy called REDIS at "REDIS_URL"
}

flavour! {
    /// A backend on Valkey: like [`RedisBackend`], but for strategies that only Redis has.
    ///
    /// ```
    /// use anarchon::ValkeyBackend;
    ///
    /// let backend = ValkeyBackend::new("valkey://cache.internal:6379").prefix("billing:cron:");
    /// # drop(backend);
    /// ```
    ValkeyBackend with ValkeyStrategy called VALKEY at "VALKEY_URL"
}
