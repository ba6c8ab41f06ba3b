//! PgBouncer, which lets transactions of many clients share few connections of PostgreSQL.

use std::net::SocketAddr;

use rustix::process::Signal;
use sqlx::PgConnection;

use super::database::{Database, answers, through};
use super::process::{OneProcess, Process, folder};
use super::{Port, Postgres, PostgresVersion, component};
use crate::store::Server;

/// A version of PgBouncer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PgBouncerVersion {
    /// 1.18, which knows nothing of prepared statements.
    V1_18,
    /// 1.24.
    V1_24,
}

impl PgBouncerVersion {
    /// All that there are.
    pub const ALL: [Self; 2] = [Self::V1_18, Self::V1_24];

    const fn component(self) -> &'static str {
        match self {
            Self::V1_18 => "pgbouncer118",
            Self::V1_24 => "pgbouncer124",
        }
    }
}

/// A PgBouncer in transaction mode.
#[derive(Debug)]
pub struct PgBouncer {
    port: Port,
    process: Process,
    postgres: String,
}

impl PgBouncer {
    /// A new one in front of the PostgreSQL 15 that the tests of this program share, which is always one of ours.
    #[must_use]
    pub fn own(version: PgBouncerVersion) -> Option<Self> {
        Self::before(version, Postgres::shared_of_ours(PostgresVersion::V15)?)
    }

    /// A new one in front of a server of ours, which must be running.
    ///
    /// # Panics
    /// When it does not start, or is not there and `CI` is set.
    #[must_use]
    pub fn before(version: PgBouncerVersion, postgres: &Postgres) -> Option<Self> {
        let name = version.component();
        let program = component(name)?;
        let (folder, port) = (folder(name), Port::reserve());
        let file = folder.path().join("pgbouncer.ini");
        // What sqlx says when it connects has to be ignored. The default wait for a server that comes back is 15 s.
        let settings = format!(
            "[databases]\n\
             * = host=127.0.0.1 port={} user=postgres\n\
             [pgbouncer]\n\
             listen_addr = 127.0.0.1\n\
             listen_port = {}\n\
             unix_socket_dir =\n\
             auth_type = any\n\
             pool_mode = transaction\n\
             default_pool_size = 4\n\
             max_client_conn = 200\n\
             server_login_retry = 1\n\
             ignore_startup_parameters = extra_float_digits\n",
            postgres.address().port(),
            port.number,
        );
        std::fs::write(&file, settings).expect("a file for its settings");
        let process = Process::new(name, folder, &program, Signal::INT, Signal::TERM).arg(file);
        let mut server = Self { port, process, postgres: postgres.url().to_owned() };
        server.start();
        Some(server)
    }

    /// Creates a database on the server behind it; its URL leads through this.
    ///
    /// # Panics
    /// When it cannot.
    #[must_use]
    pub fn database(&self) -> Database {
        Database::create::<PgConnection>(&self.postgres, false).moved_to(self.address())
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
}

impl OneProcess for PgBouncer {
    fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    fn answers(&self) -> impl Fn() -> Result<(), String> + use<> {
        let url = through(&self.postgres, self.address());
        move || answers::<PgConnection>(&url)
    }
}
