//! NATS with JetStream.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

use rustix::process::Signal;

use super::process::{Process, folder};
use super::{Port, block_on, component};
use crate::store::Server;

/// A server's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatsVersion {
    /// NATS 2.9, which does not tell its time.
    Nats29,
    /// NATS 2.15.
    Nats215,
}

impl NatsVersion {
    /// All that there are.
    pub const ALL: [Self; 2] = [Self::Nats29, Self::Nats215];

    const fn component(self) -> &'static str {
        match self {
            Self::Nats29 => "nats29",
            Self::Nats215 => "nats215",
        }
    }

    const fn number(self) -> usize {
        match self {
            Self::Nats29 => 0,
            Self::Nats215 => 1,
        }
    }
}

/// A NATS server with JetStream, on disk.
#[derive(Debug)]
pub struct Nats {
    port: Port,
    process: Process,
    next: AtomicU16,
}

impl Nats {
    /// The server that the tests of this program share.
    #[must_use]
    pub fn shared(version: NatsVersion) -> Option<&'static Self> {
        static SHARED: [OnceLock<Option<Nats>>; 2] = [const { OnceLock::new() }; 2];
        // Said to each test for which it is not there.
        component(version.component())?;
        SHARED[version.number()].get_or_init(|| Self::own(version)).as_ref()
    }

    /// A new server, which goes when this does.
    ///
    /// # Panics
    /// When it does not start, or is not there and `CI` is set.
    #[must_use]
    pub fn own(version: NatsVersion) -> Option<Self> {
        Self::start_with(version, "")
    }

    /// A new server with settings of its own.
    ///
    /// # Panics
    /// When it does not start, or is not there and `CI` is set.
    #[must_use]
    pub fn start_with(version: NatsVersion, settings: &str) -> Option<Self> {
        let name = version.component();
        let program = component(name)?;
        let (folder, port) = (folder(name), Port::reserve());
        let settings = format!("server_name: n1\n{settings}\n");
        let config = configure(folder.path(), port.number, &settings);
        let process = Process::new(name, folder, &program, Signal::TERM, Signal::KILL).arg("-c").arg(config);
        let mut server = Self { port, process, next: AtomicU16::new(1) };
        server.start();
        Some(server)
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("nats://{}", self.address())
    }

    /// The URL of a bucket that no other test has.
    #[must_use]
    pub fn bucket(&self) -> String {
        self.bucket_through(self.address())
    }

    /// The URL of a bucket that no other test has, by way of another address.
    #[must_use]
    pub fn bucket_through(&self, address: SocketAddr) -> String {
        format!("nats-kv://{address}?bucket={}", self.unused("bucket"))
    }

    /// A name that no other test was given.
    #[must_use]
    pub fn unused(&self, what: &str) -> String {
        format!("{what}-{}", self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }
}

/// Writes a server's configuration into its folder, and says where.
pub(super) fn configure(folder: &Path, port: u16, more: &str) -> std::path::PathBuf {
    let store = folder.join("js").display().to_string();
    let text = format!(
        "listen: \"127.0.0.1:{port}\"\n{more}\njetstream {{ store_dir: \"{store}\", max_memory_store: 64MB, \
         max_file_store: 1GB }}\n"
    );
    let path = folder.join("nats.conf");
    std::fs::write(&path, text).expect("a configuration");
    path
}

/// Whether JetStream answers there.
pub(super) fn answers(url: &str) -> Result<(), String> {
    block_on(async {
        let patience = std::time::Duration::from_millis(500);
        let options = async_nats::ConnectOptions::new().connection_timeout(patience).request_timeout(Some(patience));
        let client = options.connect(url).await.map_err(|e| e.to_string())?;
        client.request("$JS.API.INFO", "".into()).await.map(drop).map_err(|e| e.to_string())
    })
}

impl Server for Nats {
    fn start(&mut self) {
        let url = self.url();
        self.process.start(|| answers(&url));
    }

    fn kill(&mut self) {
        self.process.kill();
    }

    fn freeze(&mut self) {
        self.process.freeze();
    }

    fn thaw(&mut self) {
        self.process.thaw();
    }

    fn stop(&mut self) {
        self.process.stop();
    }
}
