//! MariaDB.

use std::sync::OnceLock;

use rustix::process::Signal;
use sqlx::MySqlConnection;

use super::database::DatabaseServer;
use super::process::{Process, folder, prepare};
use super::{Port, component};

/// A MariaDB server, 10.11.
pub type MariaDb = DatabaseServer<MySqlConnection>;

impl MariaDb {
    /// The server that the tests of this program share: the one at `ANARCHON_TEST_MYSQL_URL`, which may be a MySQL, or else
    /// one of ours.
    #[must_use]
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<MariaDb>> = OnceLock::new();
        SHARED.get_or_init(|| Self::given("ANARCHON_TEST_MYSQL_URL").or_else(Self::own)).as_ref()
    }

    /// A new server, which goes when this does.
    ///
    /// # Panics
    /// When it does not start, or is not there and `CI` is set.
    #[must_use]
    pub fn own() -> Option<Self> {
        Self::start_with(&[])
    }

    /// A new server with arguments of its own.
    ///
    /// # Panics
    /// When it does not start, or is not there and `CI` is set.
    #[must_use]
    pub fn start_with(more: &[&str]) -> Option<Self> {
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
        let process = args.into_iter().chain(more.iter().map(|arg| (*arg).to_owned())).fold(process, Process::arg);
        let url = format!("mysql://root@127.0.0.1:{}/mysql", port.number);
        Some(Self::ours(url, port, process))
    }
}
