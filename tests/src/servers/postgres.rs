//! PostgreSQL.

use std::sync::OnceLock;

use rustix::process::Signal;
use sqlx::PgConnection;

use super::database::DatabaseServer;
use super::process::{Process, folder, prepare};
use super::{Port, component};

/// A version of PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostgresVersion {
    /// 15.
    V15,
    /// 18.
    V18,
}

impl PostgresVersion {
    /// All that there are.
    pub const ALL: [Self; 2] = [Self::V15, Self::V18];

    const fn component(self) -> &'static str {
        match self {
            Self::V15 => "pg15",
            Self::V18 => "pg18",
        }
    }
}

/// A PostgreSQL server.
pub type Postgres = DatabaseServer<PgConnection>;

impl Postgres {
    /// The server that the tests of this program share: the one at `ANARCHON_TEST_POSTGRES_URL`, whatever its version, or
    /// else one of ours.
    #[must_use]
    pub fn shared(version: PostgresVersion) -> Option<&'static Self> {
        static GIVEN: OnceLock<Option<Postgres>> = OnceLock::new();
        GIVEN
            .get_or_init(|| Self::given("ANARCHON_TEST_POSTGRES_URL"))
            .as_ref()
            .or_else(|| Self::shared_of_ours(version))
    }

    /// The server of ours that the tests of this program share.
    pub(super) fn shared_of_ours(version: PostgresVersion) -> Option<&'static Self> {
        static V15: OnceLock<Option<Postgres>> = OnceLock::new();
        static V18: OnceLock<Option<Postgres>> = OnceLock::new();
        let shared = match version {
            PostgresVersion::V15 => &V15,
            PostgresVersion::V18 => &V18,
        };
        shared.get_or_init(|| Self::own(version)).as_ref()
    }

    /// A new server, which goes when this does.
    ///
    /// # Panics
    /// When it does not start, or is not there and `CI` is set.
    #[must_use]
    pub fn own(version: PostgresVersion) -> Option<Self> {
        Self::start_with(version, &[])
    }

    /// A new server with settings of its own, as in `ssl=on`.
    ///
    /// # Panics
    /// When it does not start, or is not there and `CI` is set.
    #[must_use]
    pub fn start_with(version: PostgresVersion, settings: &[&str]) -> Option<Self> {
        let name = version.component();
        let programs = component(name)?;
        let (folder, port) = (folder(name), Port::reserve());
        let data = folder.path().join("data");
        let args = ["-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync", "-D"];
        prepare(&folder, &programs.join("initdb"), args.iter().map(AsRef::as_ref).chain([data.as_os_str()]));
        let number = port.number;
        let mut process = Process::new(name, folder, &programs.join("postgres"), Signal::INT, Signal::QUIT);
        // Its own segments of shared memory would outlive a kill: files in its folder do not.
        let common = [
            "listen_addresses=127.0.0.1",
            &format!("port={number}"),
            "unix_socket_directories=",
            "dynamic_shared_memory_type=mmap",
            "max_connections=200",
            "shared_buffers=32MB",
        ];
        for setting in common.iter().chain(settings) {
            process = process.arg("-c").arg(*setting);
        }
        let process = process.arg("-D").arg(data);
        let url = format!("postgres://postgres@127.0.0.1:{number}/postgres");
        Some(Self::ours(url, port, process))
    }
}
