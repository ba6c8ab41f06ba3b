//! NATS with JetStream.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use async_nats::client::RequestErrorKind;
use async_nats::{ConnectErrorKind, ConnectOptions};
use rustix::process::Signal;

use super::process::{Process, folder};
use super::{Port, block_on, component};
use crate::lab::LONG;
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
    /// Of a cluster, which answers once it has a leader.
    clustered: bool,
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
        Self::start_in(version, |folder| format!("server_name: n1\n{settings}\n{}", jetstream(folder)))
    }

    /// A new server that only passes messages on.
    ///
    /// # Panics
    /// When it does not start, or is not there and `CI` is set.
    #[must_use]
    pub fn without_jetstream(version: NatsVersion) -> Option<Self> {
        Self::start_in(version, |_| String::new())
    }

    fn start_in(version: NatsVersion, settings: impl FnOnce(&Path) -> String) -> Option<Self> {
        let name = version.component();
        let program = component(name)?;
        let (folder, port) = (folder(name), Port::reserve());
        let config = configure(folder.path(), port.number, &settings(folder.path()));
        let process = Process::new(name, folder, &program, Signal::TERM, Signal::KILL).arg("-c").arg(config);
        let mut server = Self { port, process, clustered: false, next: AtomicU16::new(1) };
        server.start();
        Some(server)
    }

    /// The number-th server of a cluster whose servers hear each other at these ports; it is not started.
    fn of_cluster(version: NatsVersion, number: usize, routes: &[Port]) -> Option<Self> {
        let name = version.component();
        let program = component(name)?;
        let (folder, port) = (folder(name), Port::reserve());
        let all: Vec<String> = routes.iter().map(|route| format!("\"nats://{}\"", route.address())).collect();
        let listens = routes[number].address();
        let settings = format!(
            "server_name: n{number}\ncluster {{ name: c, listen: \"{listens}\", routes: [{}] }}\n{}",
            all.join(", "),
            jetstream(folder.path())
        );
        let config = configure(folder.path(), port.number, &settings);
        let process = Process::new(name, folder, &program, Signal::TERM, Signal::KILL).arg("-c").arg(config);
        Some(Self { port, process, clustered: true, next: AtomicU16::new(1) })
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

    /// Its process, while it is running.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.process.pid()
    }
}

/// The setting that turns JetStream on.
fn jetstream(folder: &Path) -> String {
    let store = folder.join("js").display().to_string();
    format!("jetstream {{ store_dir: \"{store}\", max_memory_store: 64MB, max_file_store: 1GB }}\n")
}

/// Writes a server's configuration into its folder, and says where.
fn configure(folder: &Path, port: u16, more: &str) -> PathBuf {
    let path = folder.join("nats.conf");
    std::fs::write(&path, format!("listen: \"127.0.0.1:{port}\"\n{more}\n")).expect("a configuration");
    path
}

/// Whether somebody answers there: with JetStream, if it is on, and be it that nobody is let in without a password.
fn answers(url: &str, clustered: bool) -> Result<(), String> {
    block_on(async {
        let patience = Duration::from_millis(500);
        let options = ConnectOptions::new().connection_timeout(patience).request_timeout(Some(patience));
        let client = match options.connect(url).await {
            Err(error) if error.kind() == ConnectErrorKind::AuthorizationViolation => return Ok(()),
            other => other.map_err(|error| error.to_string())?,
        };
        if clustered {
            return Ok(());
        }
        match client.request("$JS.API.INFO", "".into()).await {
            Err(error) if error.kind() == RequestErrorKind::NoResponders => Ok(()),
            other => other.map(drop).map_err(|error| error.to_string()),
        }
    })
}

impl Server for Nats {
    fn start(&mut self) {
        let (url, clustered) = (self.url(), self.clustered);
        self.process.start(|| answers(&url, clustered));
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

/// Three servers that keep everything together.
#[derive(Debug)]
pub struct NatsCluster {
    nodes: Vec<Nats>,
    _routes: Vec<Port>,
}

impl NatsCluster {
    /// A new cluster, which goes when this does.
    ///
    /// # Panics
    /// When it does not come up, or its program is not there and `CI` is set.
    #[must_use]
    pub fn own(version: NatsVersion) -> Option<Self> {
        let routes: Vec<Port> = (0..3).map(|_| Port::reserve()).collect();
        let mut nodes = Vec::new();
        for number in 0..routes.len() {
            nodes.push(Nats::of_cluster(version, number, &routes)?);
        }
        nodes.iter_mut().for_each(Server::start);
        let since = Instant::now();
        while let Err(error) = answers(&nodes[0].url(), false) {
            assert!(since.elapsed() < LONG, "not within {LONG:?}: a leader: {error}");
        }
        Some(Self { nodes, _routes: routes })
    }

    /// The URLs of all servers.
    #[must_use]
    pub fn urls(&self) -> String {
        self.nodes.iter().map(Nats::url).collect::<Vec<_>>().join(",")
    }

    /// A server: that of this name, as JetStream tells it.
    ///
    /// # Panics
    /// When none has the name.
    pub fn named(&mut self, name: &str) -> &mut Nats {
        let number: usize = name.strip_prefix('n').and_then(|number| number.parse().ok()).expect("a server's name");
        &mut self.nodes[number]
    }
}
