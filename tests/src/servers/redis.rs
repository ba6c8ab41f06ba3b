//! Redis and Valkey.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use redis::{Client, Cmd, Connection, FromRedisValue};
use rustix::process::Signal;

use super::process::{OneProcess, Process, folder};
use super::{Port, component};
use crate::store::Server;

/// How many databases a server has: each test on a shared one gets one.
const DATABASES: u16 = 4096;

/// A server's kind and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedisVersion {
    /// Redis 7.0.
    Redis7,
    /// Redis 8.6 or newer.
    Redis8,
    /// Valkey 8.0.
    Valkey8,
    /// Valkey 9.
    Valkey9,
}

impl RedisVersion {
    /// All that there are.
    pub const ALL: [Self; 4] = [Self::Redis7, Self::Redis8, Self::Valkey8, Self::Valkey9];

    pub(super) const fn component(self) -> &'static str {
        match self {
            Self::Redis7 => "redis7",
            Self::Redis8 => "redis8",
            Self::Valkey8 => "valkey8",
            Self::Valkey9 => "valkey9",
        }
    }

    /// `redis` or `valkey`.
    #[must_use]
    pub const fn scheme(self) -> &'static str {
        match self {
            Self::Redis7 | Self::Redis8 => "redis",
            Self::Valkey8 | Self::Valkey9 => "valkey",
        }
    }

    const fn number(self) -> usize {
        match self {
            Self::Redis7 => 0,
            Self::Redis8 => 1,
            Self::Valkey8 => 2,
            Self::Valkey9 => 3,
        }
    }
}

/// A Redis or Valkey server.
#[derive(Debug)]
pub struct Redis {
    version: RedisVersion,
    port: Port,
    process: Process,
    next: AtomicU16,
}

impl Redis {
    /// The server that the tests of this program share.
    #[must_use]
    pub fn shared(version: RedisVersion) -> Option<&'static Self> {
        static SHARED: [OnceLock<Option<Redis>>; 4] = [const { OnceLock::new() }; 4];
        // Said to each test for which it is not there.
        component(version.component())?;
        SHARED[version.number()].get_or_init(|| Self::start_with(version, &["--appendonly", "no"])).as_ref()
    }

    /// A new server, which goes when this does, and forgets everything when it is killed.
    ///
    /// # Panics
    /// When it does not start, or is not there and `CI` is set.
    #[must_use]
    pub fn own(version: RedisVersion) -> Option<Self> {
        Self::start_with(version, &["--appendonly", "no"])
    }

    /// A new server, which writes to a file, and syncs it, before it answers.
    ///
    /// # Panics
    /// When it does not start, or is not there and `CI` is set.
    #[must_use]
    pub fn own_durable(version: RedisVersion) -> Option<Self> {
        Self::start_with(version, &["--appendonly", "yes", "--appendfsync", "always"])
    }

    /// A new server with settings of its own.
    ///
    /// # Panics
    /// When it does not start, or is not there and `CI` is set.
    #[must_use]
    pub fn start_with(version: RedisVersion, settings: &[&str]) -> Option<Self> {
        let name = version.component();
        let program = component(name)?.join(format!("{}-server", version.scheme()));
        let (folder, port) = (folder(name), Port::reserve());
        let socket = folder.path().join("socket").display().to_string();
        let (number, databases) = (port.number.to_string(), DATABASES.to_string());
        let process = Process::new(name, folder, &program, Signal::TERM, Signal::KILL);
        let common = ["--port", &number, "--bind", "127.0.0.1", "--unixsocket", &socket, "--databases", &databases];
        let args = common.iter().chain(&["--save", ""]).chain(settings);
        let process = args.fold(process, |process, arg| process.arg(arg));
        let mut server = Self { version, port, process, next: AtomicU16::new(1) };
        server.start();
        Some(server)
    }

    /// The URL of its first database.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_through(self.address())
    }

    /// The URL of its first database by way of another address.
    #[must_use]
    pub fn url_through(&self, address: SocketAddr) -> String {
        format!("{}://{address}", self.version.scheme())
    }

    /// The URL of a database that no other test has.
    ///
    /// # Panics
    /// When there are no more.
    #[must_use]
    pub fn database(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        assert!(number < DATABASES, "there are no more databases");
        format!("{}/{number}", self.url())
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Its process, while it is running.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.process.pid()
    }

    /// Sends a command to its first database, on a connection of its own.
    ///
    /// # Panics
    /// When it fails.
    pub fn ask<T: FromRedisValue>(&self, command: &Cmd) -> T {
        command.query(&mut self.connection()).expect("an answer")
    }

    /// A connection to its first database.
    ///
    /// # Panics
    /// When it does not answer.
    #[must_use]
    pub fn connection(&self) -> Connection {
        connect(&self.url()).expect("a connection")
    }
}

pub(super) fn connect(url: &str) -> redis::RedisResult<Connection> {
    let patience = Duration::from_secs(10);
    let connection = Client::open(url)?.get_connection_with_timeout(patience)?;
    connection.set_read_timeout(Some(patience))?;
    Ok(connection)
}

impl OneProcess for Redis {
    fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    fn answers(&self) -> impl Fn() -> Result<(), String> + use<> {
        let url = self.url();
        move || {
            let answers = || redis::cmd("PING").query::<String>(&mut connect(&url)?);
            answers().map(drop).map_err(|e| e.to_string())
        }
    }
}
