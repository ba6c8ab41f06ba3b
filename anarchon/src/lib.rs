//! Scheduled jobs for a service that runs as more than one instance: exactly one instance runs each scheduled time.
//!
//! A timer in each of three instances runs a job three times. With anarchon all instances compute the same scheduled times
//! and race for each of them in the store they already share; the store lets one win. There is no leader and no extra
//! server, and on a store that can hold leases the losers are backups that take over when the winner dies.
//!
//! The [`guide`] has a chapter about each matter; [`guide::quick_start`] is a program from nothing, [`guide::failures`] what
//! happens when things go wrong, and [`guide::backends`] all stores beside each other.
//!
//! # A whole program
//!
//! ```no_run
//! # #[cfg(any())] fn main() {}
//! use anarchon::Context;
//!
//! #[anarchon::job(every = "1h", overlap = "skip", max_attempts = 2)]
//! async fn export_all(ctx: Context) -> Result<(), std::io::Error> {
//!     println!("exporting for {}", ctx.slot());
//!     Ok(())
//! }
//!
//! anarchon::main!();
//! ```
//!
//! Its store is the file `./anarchon.db` unless `ANARCHON_STORE` names another one. Start it as often as you like.
//!
//! # Inside a service
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), anarchon::Error> {
//! use anarchon::{Context, MemoryBackend, Overlap, Scheduler, State};
//!
//! #[derive(Clone)]
//! struct App;
//!
//! async fn sync(ctx: Context, State(_app): State<App>) {
//!     println!("slot {} attempt {}", ctx.slot(), ctx.attempt());
//! }
//!
//! let scheduler = Scheduler::builder(MemoryBackend::new()).state(App).start().await?;
//! scheduler.every("sync", "10s", sync).overlap(Overlap::Allow).add().await?;
//! scheduler.stop().await?;
//! # Ok(()) }
//! ```
//!
//! # Three ideas
//!
//! 1. **Every instance computes the same slots.** `every = "10s"` is a grid from the Unix epoch, a cron line is read in
//!    its own time zone with fixed rules for clock changes, and the host's zone never matters.
//! 2. **Each instance claims each slot**, after a short random wait that spreads the work. The claim is one atomic step
//!    in the store, and may be repeated: it carries a random token.
//! 3. **The winner holds a lease** and renews it while it lives. When the lease is over, a backup starts the same slot
//!    again. [`lease`] has the rules.
//!
//! What you can rely on: a slot is started at least once while instances and store are up, never twice at once, and never
//! again once it is done. It is not exactly once: a run whose runner died is started again. So make handlers harmless to
//! repeat, key writes by [`Context::slot_ms`], or guard them with [`Context::fence`]; and where the jobs are kept in the
//! database that a handler writes to, `Finish<Db>` makes its writes and the end of its run one transaction.
//! [`guide::effects`] is about all three.
//!
//! # Choosing a store
//!
//! | store | feature | leases | for |
//! |---|---|---|---|
//! | [`PostgresBackend`][postgres] | `postgres`, `tokio-postgres` | yes | services that have a PostgreSQL, also behind a pooler |
//! | [`SqliteBackend`][sqlite] | `sqlite` (default) | yes | processes on one machine |
//! | [`MySqlBackend`][mysql] | `mysql` | yes | MySQL 8, MariaDB 10.6 |
//! | [`LibsqlBackend`][libsql] | `libsql` | yes | a libSQL server, Turso |
//! | [`RedisBackend`][redis], [`ValkeyBackend`][valkey] | `redis`, `redis-cluster`, `redis-sentinel` | yes | a Redis or Valkey server; with other [strategies][] it only claims |
//! | [`NatsKvBackend`][nats-kv] | `nats` | yes | NATS with JetStream |
//! | [`NatsBackend`][nats] | `nats` | no | NATS with JetStream |
//! | [`RabbitMqBackend`][rabbitmq] | `rabbitmq` | no | a RabbitMQ broker |
//! | [`MemoryBackend`] | | yes | tests |
//! | [`ClaimOnlyMemoryBackend`] | | no | tests |
//! | [`AnyBackend`], [`AnyClaimBackend`] | | yes, no | the store that a URL names |
//!
//! A store's strength is in its type. An option that needs leases does not compile on a store without, and what only
//! the start of the program can know (jobs of another crate) is refused by [`start`](SchedulerBuilder::start), naming the
//! job, the option, the store and the place.
//!
//! # Features
//!
//! | feature | default | what |
//! |---|---|---|
//! | `sqlite` | yes | [`SqliteBackend`][sqlite], [`Finish<Sqlite>`][finish] |
//! | `cli` | yes | [`cli`]: the command line of `anarchon::main!` programs, and of others that ask for it |
//! | `postgres` | no | [`PostgresBackend`][postgres], [`Finish<Postgres>`][finish] |
//! | `tokio-postgres` | no | [`PostgresBackend`][postgres] over a tokio-postgres configuration or a deadpool-postgres pool |
//! | `mysql` | no | [`MySqlBackend`][mysql], [`Finish<MySql>`][finish] |
//! | `libsql` | no | [`LibsqlBackend`][libsql] |
//! | `redis` | no | [`RedisBackend`][redis], [`ValkeyBackend`][valkey] |
//! | `redis-cluster`, `redis-sentinel` | no | the same on a cluster, or on the server that sentinels name |
//! | `nats` | no | [`NatsKvBackend`][nats-kv], with leases, and [`NatsBackend`][nats], which only claims |
//! | `rabbitmq` | no | [`RabbitMqBackend`][rabbitmq] |
//! | `metrics` | no | counters, gauges and histograms through the `metrics` crate: [`guide::observing`] |
//! | `tls` | no | encrypted connections, by rustls, for the stores that are on: some 10 crates more, 17 with `libsql`, 66 with `rabbitmq`. NATS has it anyway, and `tokio-postgres` by a pool's own |
//! | `testing` | no | [`testing`][testing]: the conformance suite for backends, a cluster of instances in one process, a manual clock, a store that fails on demand |
//!
//! The oldest supported Rust is the `rust-version` of the manifest; raising it is a minor release (before 1.0: it raises
//! the second number).
//!
//! [strategies]: guide::redis#strategies
// What a feature brings is linked where it is there; without it, the name leads to its page of the guide.
#![cfg_attr(feature = "_postgres", doc = "[postgres]: PostgresBackend")]
#![cfg_attr(not(feature = "_postgres"), doc = "[postgres]: guide::postgres")]
#![cfg_attr(feature = "sqlite", doc = "[sqlite]: SqliteBackend")]
#![cfg_attr(not(feature = "sqlite"), doc = "[sqlite]: guide::sqlite")]
#![cfg_attr(feature = "mysql", doc = "[mysql]: MySqlBackend")]
#![cfg_attr(not(feature = "mysql"), doc = "[mysql]: guide::mysql")]
#![cfg_attr(feature = "libsql", doc = "[libsql]: LibsqlBackend")]
#![cfg_attr(not(feature = "libsql"), doc = "[libsql]: guide::libsql")]
#![cfg_attr(feature = "redis", doc = "[redis]: RedisBackend\n[valkey]: ValkeyBackend")]
#![cfg_attr(not(feature = "redis"), doc = "[redis]: guide::redis\n[valkey]: guide::redis")]
#![cfg_attr(feature = "nats", doc = "[nats-kv]: NatsKvBackend\n[nats]: NatsBackend")]
#![cfg_attr(not(feature = "nats"), doc = "[nats-kv]: guide::nats\n[nats]: guide::nats")]
#![cfg_attr(feature = "rabbitmq", doc = "[rabbitmq]: RabbitMqBackend")]
#![cfg_attr(not(feature = "rabbitmq"), doc = "[rabbitmq]: guide::rabbitmq")]
#![cfg_attr(feature = "testing", doc = "[testing]: mod@testing")]
#![cfg_attr(not(feature = "testing"), doc = "[testing]: guide::testing")]
#![cfg_attr(feature = "_sqlx", doc = "[finish]: Finish")]
#![cfg_attr(not(feature = "_sqlx"), doc = "[finish]: guide::effects")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
pub mod backend;
pub mod catalogue;
#[cfg(feature = "cli")]
pub mod cli;
mod clock;
mod context;
mod duration;
mod error;
mod event;
mod extract;
pub mod guide;
mod health;
mod history;
mod job;
pub mod lease;
pub mod option;
mod registry;
pub mod run;
mod scheduler;
mod slot;
#[cfg(feature = "testing")]
pub mod testing;

pub use anarchon_macros::{backend, job, main};
pub use anarchon_schedule::{Dialect, ParseError, Schedule, interval};
#[cfg(feature = "libsql")]
pub use backend::LibsqlBackend;
#[cfg(feature = "mysql")]
pub use backend::MySqlBackend;
#[cfg(feature = "_postgres")]
pub use backend::PostgresBackend;
#[cfg(feature = "rabbitmq")]
pub use backend::RabbitMqBackend;
#[cfg(feature = "sqlite")]
pub use backend::SqliteBackend;
#[cfg(feature = "_sqlx")]
pub use backend::sql::{Finish, FinishError};
pub use backend::{
    AnyBackend, AnyClaimBackend, Backend, ClaimBackend, ClaimOnlyMemoryBackend, HistoryByAge, LeaseBackend,
    MemoryBackend,
};
#[cfg(feature = "nats")]
pub use backend::{NatsBackend, NatsKvBackend};
#[cfg(feature = "redis")]
pub use backend::{RedisBackend, ValkeyBackend};
pub use clock::{Clock, SystemClock};
pub use context::{CancelReason, Context};
pub use duration::IntoDuration;
pub use error::{BackendError, BackendErrorKind, BoxError, Error, Result};
pub use event::Event;
pub use extract::{Data, Extract, Handler, HandlerResult, Outcome, State, TakenOn};
pub use health::{EngineState, Health, StoreError, StoreHealth};
pub use option::{Overlap, Retention};
pub use run::{AttemptRecord, AttemptStatus, Reason, Record, RunKey, SkipReason, SkipRecord, Status};
pub use scheduler::entry::FromEnv;
pub use scheduler::{JobBuilder, JobInfo, ManualRun, Scheduler, SchedulerBuilder, kind};
pub use slot::{InstanceId, JobName, Place, Slot, Token};
