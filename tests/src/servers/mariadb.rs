//! MariaDB.

use std::net::SocketAddr;
use std::sync::OnceLock;

use rustix::process::Signal;
use sqlx::MySqlConnection;

use super::database::{Database, answers};
use super::process::{Process, folder, prepare};
use super::{Port, component};
use crate::store::Server;

/// A MariaDB server, 10.11.
#[derive(Debug)]
pub struct MariaDb {
    url: String,
    /// That of a server of ours.
    ours: Option<(Port, Process)>,
}

impl MariaDb {
    /// The server that the tests of this program share: the one at `ANARCHON_TEST_MYSQL_URL`, which may be a MySQL, or else
    /// one of ours.
    #[must_use]
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<MariaDb>> = OnceLock::new();
        let given = || std::env::var("ANARCHON_TEST_MYSQL_URL").ok().map(|url| Self { url, ours: None });
        SHARED.get_or_init(|| given().or_else(Self::own)).as_ref()
    }

    /// A new server, which goes when this does.
    ///
    /// # Panics
    /// When it does not start, or is not there and `CI` is set.
    #[must_use]
    pub fn own() -> Option<Self> {
        let name = "mariadb1011";
        let programs = component(name)?;
        let (folder, port) = (folder(name), Port::reserve());
        let path = |file: &str| folder.path().join(file).display().to_string();
        let data = format!("--datadir={}", path("data"));
        let root = "--auth-root-authentication-method=normal";
        prepare(&folder, &programs.join("mariadb-install-db"), [&data, root, "--skip-test-db"]);
        let args = [
            data,
            format!("--socket={}", path("s")),
            format!("--pid-file={}", path("pid")),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--port={}", port.number),
            // As distributions have it; it is not the default.
            "--character-set-server=utf8mb4".to_owned(),
            "--innodb-buffer-pool-size=32M".to_owned(),
            "--innodb-log-file-size=16M".to_owned(),
            "--innodb-flush-log-at-trx-commit=1".to_owned(),
            "--performance-schema=OFF".to_owned(),
            "--skip-name-resolve".to_owned(),
        ];
        let process = Process::new(name, folder, &programs.join("mariadbd"), Signal::TERM, Signal::KILL);
        let process = args.into_iter().fold(process, Process::arg);
        let url = format!("mysql://root@127.0.0.1:{}/mysql", port.number);
        let mut server = Self { url, ours: Some((port, process)) };
        server.start();
        Some(server)
    }

    /// The URL of its first database.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Creates a database.
    ///
    /// # Panics
    /// When it cannot.
    #[must_use]
    pub fn database(&self) -> Database {
        Database::create::<MySqlConnection>(&self.url, self.ours.is_none())
    }

    /// Where it listens.
    ///
    /// # Panics
    /// When it is not a server of ours.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.ours.as_ref().expect("a server of ours").0.address()
    }

    /// Its process, while it is running.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.ours.as_ref()?.1.pid()
    }

    fn process(&mut self) -> &mut Process {
        &mut self.ours.as_mut().expect("a server of ours").1
    }
}

impl Server for MariaDb {
    fn start(&mut self) {
        let url = self.url.clone();
        self.process().start(|| answers::<MySqlConnection>(&url));
    }

    fn kill(&mut self) {
        self.process().kill();
    }

    fn freeze(&mut self) {
        self.process().freeze();
    }

    fn thaw(&mut self) {
        self.process().thaw();
    }

    fn stop(&mut self) {
        self.process().stop();
    }
}
