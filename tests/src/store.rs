//! Stores that tests run on.

use std::fmt;
use std::path::Path;

use sqlx::{Connection as _, Executor as _, SqliteConnection};

use crate::proxy::Proxy;
use crate::servers::{
    Database, MariaDb, Nats, NatsVersion, PgBouncer, PgBouncerVersion, Postgres, PostgresVersion, RabbitMq,
    RabbitMqVersion, Redis, RedisVersion, Sqld,
};

/// A server that a test may start, kill and start again.
pub trait Server: fmt::Debug {
    /// Starts it, with the data it had; returns once it answers.
    fn start(&mut self);
    /// Kills it, as a crash of its machine would.
    fn kill(&mut self);
    /// Freezes it: it accepts connections, and never answers.
    fn freeze(&mut self);
    /// Lets it go on.
    fn thaw(&mut self);
    /// Stops it as an administrator would.
    fn stop(&mut self);
}

/// A store: where it is, and its server if it has one of its own.
#[derive(Debug)]
pub struct Store {
    url: String,
    server: Option<Box<dyn Server>>,
    /// Goes with the store.
    database: Option<Database>,
}

impl Store {
    /// A store at `url`, on a server that this test may kill, if there is one.
    #[must_use]
    pub fn new(url: impl Into<String>, server: Option<Box<dyn Server>>) -> Self {
        Self { url: url.into(), server, database: None }
    }

    /// A new SQLite file in `directory`.
    #[must_use]
    pub fn sqlite(directory: &Path) -> Self {
        Self::new(format!("sqlite:{}", directory.join("store.db").display()), None)
    }

    fn database(database: Database, server: Option<Box<dyn Server>>) -> Self {
        Self { url: database.url().to_owned(), server, database: Some(database) }
    }

    /// A new database on the PostgreSQL that the tests of this program share.
    #[must_use]
    pub fn postgres(version: PostgresVersion) -> Option<Self> {
        Some(Self::database(Postgres::shared(version)?.database(), None))
    }

    /// A PostgreSQL of its own.
    #[must_use]
    pub fn own_postgres(version: PostgresVersion) -> Option<Self> {
        let server = Postgres::own(version)?;
        Some(Self::database(server.database(), Some(Box::new(server))))
    }

    /// A new database on a shared PostgreSQL, by way of a PgBouncer of its own, which is its server.
    #[must_use]
    pub fn pgbouncer(version: PgBouncerVersion) -> Option<Self> {
        let server = PgBouncer::own(version)?;
        Some(Self::database(server.database(), Some(Box::new(server))))
    }

    /// A new database on the MariaDB that the tests of this program share.
    #[must_use]
    pub fn mariadb() -> Option<Self> {
        Some(Self::database(MariaDb::shared()?.database(), None))
    }

    /// A MariaDB of its own.
    #[must_use]
    pub fn own_mariadb() -> Option<Self> {
        let server = MariaDb::own()?;
        Some(Self::database(server.database(), Some(Box::new(server))))
    }

    /// A sqld of its own.
    #[must_use]
    pub fn libsql() -> Option<Self> {
        let server = Sqld::own()?;
        Some(Self::new(server.url(), Some(Box::new(server))))
    }

    /// A new database on the Redis or Valkey that the tests of this program share.
    #[must_use]
    pub fn redis(version: RedisVersion) -> Option<Self> {
        Some(Self::new(Redis::shared(version)?.database(), None))
    }

    /// A Redis or Valkey of its own, which keeps what it was told when it is killed.
    #[must_use]
    pub fn own_redis(version: RedisVersion) -> Option<Self> {
        let server = Redis::own_durable(version)?;
        Some(Self::new(server.url(), Some(Box::new(server))))
    }

    /// A new bucket on the NATS server that the tests of this program share.
    #[must_use]
    pub fn nats(version: NatsVersion) -> Option<Self> {
        Some(Self::new(Nats::shared(version)?.bucket(), None))
    }

    /// A NATS server of its own.
    #[must_use]
    pub fn own_nats(version: NatsVersion) -> Option<Self> {
        let server = Nats::own(version)?;
        Some(Self::new(server.bucket(), Some(Box::new(server))))
    }

    /// A NATS server of its own, with a stream that holds no leases.
    #[must_use]
    pub fn own_nats_claims(version: NatsVersion) -> Option<Self> {
        let server = Nats::own(version)?;
        Some(Self::new(server.url(), Some(Box::new(server))))
    }

    /// A RabbitMQ of its own.
    #[must_use]
    pub fn own_rabbitmq(version: RabbitMqVersion) -> Option<Self> {
        let server = RabbitMq::own(version)?;
        Some(Self::new(server.url(), Some(Box::new(server))))
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A proxy before its server, and the URL of the same database by way of it; `None` where the store is in a file.
    ///
    /// # Panics
    /// When there is no port for it.
    #[must_use]
    pub fn through_a_proxy(&self) -> Option<(Proxy, String)> {
        let database = self.database.as_ref()?;
        let proxy = Proxy::before(database.address());
        let url = database.url_through(proxy.address());
        Some((proxy, url))
    }

    /// Whether somebody holds a lock of it for longer than a moment, so that nobody can write: a file has such locks.
    ///
    /// # Panics
    /// When the file cannot be opened.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        if !self.url.starts_with("sqlite:") {
            return false;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut connection = SqliteConnection::connect(&self.url).await.expect("the file is there");
            connection.execute("PRAGMA busy_timeout = 300").await.expect("a pragma");
            let free = connection.execute("BEGIN IMMEDIATE; ROLLBACK").await.is_ok();
            connection.close().await.expect("a close");
            !free
        })
    }

    /// Its server; a store in a file has none, nor has one on a server that is shared.
    pub fn server(&mut self) -> Option<&mut (dyn Server + 'static)> {
        self.server.as_deref_mut()
    }
}
