//! RabbitMQ, and what Erlang needs beside it.

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::process::{Process, folder, run};
use super::{Port, component};
use crate::lab::LONG;
use crate::store::Server;

/// A version of RabbitMQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RabbitMqVersion {
    /// 3.10.
    V3,
    /// 4.3 or newer.
    V4,
}

impl RabbitMqVersion {
    /// All that there are.
    pub const ALL: [Self; 2] = [Self::V3, Self::V4];

    const fn component(self) -> &'static str {
        match self {
            Self::V3 => "rabbitmq3",
            Self::V4 => "rabbitmq4",
        }
    }
}

/// Tells Erlang's nodes where each other's ports are. One is enough for a cluster.
#[derive(Debug)]
struct NameServer {
    port: Port,
    _process: Process,
}

impl NameServer {
    fn start(programs: &std::path::Path) -> Self {
        let port = Port::reserve();
        let mut process = Process::new("epmd", folder("epmd"), &programs.join("epmd"), Signal::TERM, Signal::KILL)
            .arg("-port")
            .arg(port.number.to_string())
            .arg("-address")
            .arg("127.0.0.1");
        process.start(|| TcpStream::connect(port.address()).map(drop).map_err(|e| e.to_string()));
        Self { port, _process: process }
    }
}

/// A broker.
#[derive(Debug)]
pub struct RabbitMq {
    port: Port,
    process: Process,
    programs: PathBuf,
    /// What its programs must be told by their environment.
    environment: Vec<OsString>,
    node: String,
    _erlang: Port,
    // Ends after the broker.
    _names: Arc<NameServer>,
    home: PathBuf,
}

impl RabbitMq {
    /// The broker that the tests of this program share; each has a prefix of its own.
    #[must_use]
    pub fn shared(version: RabbitMqVersion) -> Option<&'static Self> {
        static SHARED: [OnceLock<Option<RabbitMq>>; 2] = [const { OnceLock::new() }; 2];
        // Said to each test for which it is not there.
        component(version.component())?;
        SHARED[usize::from(version == RabbitMqVersion::V4)].get_or_init(|| Self::own(version)).as_ref()
    }

    /// A new broker, which goes when this does.
    ///
    /// # Panics
    /// When it does not start, or is not there and `CI` is set.
    #[must_use]
    pub fn own(version: RabbitMqVersion) -> Option<Self> {
        Self::start_with(version, "")
    }

    /// A new broker with lines of its own in its settings.
    ///
    /// # Panics
    /// When it does not start, or is not there and `CI` is set.
    #[must_use]
    pub fn start_with(version: RabbitMqVersion, settings: &str) -> Option<Self> {
        let programs = component(version.component())?;
        let names = Arc::new(NameServer::start(&programs));
        let mut server = Self::prepare(version, programs, &names, settings);
        server.start();
        Some(server)
    }

    /// Two brokers that are one cluster.
    ///
    /// # Panics
    /// When it does not come up, or its program is not there and `CI` is set.
    #[must_use]
    pub fn own_pair(version: RabbitMqVersion) -> Option<[Self; 2]> {
        let programs = component(version.component())?;
        let names = Arc::new(NameServer::start(&programs));
        let mut first = Self::prepare(version, programs.clone(), &names, "");
        first.start();
        let mut second = Self::prepare(version, programs, &names, "");
        second.start();
        second.ctl(&["stop_app"]);
        second.ctl(&["reset"]);
        second.ctl(&["join_cluster", &first.node]);
        second.ctl(&["start_app"]);
        Some([first, second])
    }

    fn prepare(version: RabbitMqVersion, programs: PathBuf, names: &Arc<NameServer>, settings: &str) -> Self {
        let name = version.component();
        let (folder, port, erlang) = (folder(name), Port::reserve(), Port::reserve());
        let home = folder.path().to_owned();
        let at = |file: &str| folder.path().join(file).display().to_string();
        let config = format!(
            "listeners.tcp.1 = 127.0.0.1:{}\n\
             log.console = true\n\
             log.file = false\n\
             disk_free_limit.absolute = 50MB\n\
             vm_memory_high_watermark.absolute = 512MB\n\
             {settings}\n",
            port.number
        );
        std::fs::write(folder.path().join("rabbitmq.conf"), config).expect("a file for its settings");
        std::fs::write(folder.path().join("enabled_plugins"), "[].\n").expect("a file for its plugins");
        let cookie = home.join(".erlang.cookie");
        let file = std::fs::File::options().write(true).create_new(true).mode(0o400).open(&cookie);
        file.and_then(|mut file| file.write_all(b"anarchon")).expect("a file for its cookie");
        let owner = std::fs::metadata(&home).expect("a folder");
        let (user, group) = (std::os::unix::fs::MetadataExt::uid(&owner), std::os::unix::fs::MetadataExt::gid(&owner));
        std::os::unix::fs::chown(&cookie, Some(user), Some(group)).expect("root can give a file away");
        let node = format!("anarchon{}@localhost", port.number);
        let environment = [
            format!("HOME={}", home.display()),
            format!("ERL_EPMD_PORT={}", names.port.number),
            "ERL_EPMD_ADDRESS=127.0.0.1".to_owned(),
            format!("RABBITMQ_NODENAME={node}"),
            format!("RABBITMQ_DIST_PORT={}", erlang.number),
            "RABBITMQ_CONF_ENV_FILE=/dev/null".to_owned(),
            format!("RABBITMQ_CONFIG_FILE={}", at("rabbitmq.conf")),
            format!("RABBITMQ_ADVANCED_CONFIG_FILE={}", at("none.config")),
            format!("RABBITMQ_MNESIA_BASE={}", at("db")),
            format!("RABBITMQ_LOG_BASE={}", at("logs")),
            format!("RABBITMQ_ENABLED_PLUGINS_FILE={}", at("enabled_plugins")),
            format!("RABBITMQ_FEATURE_FLAGS_FILE={}", at("feature_flags")),
            format!("RABBITMQ_GENERATED_CONFIG_DIR={}", at("generated")),
            format!("RABBITMQ_PID_FILE={}", at("pid")),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none \
             -kernel inet_dist_use_interface {127,0,0,1}"
                .to_owned(),
        ];
        let environment: Vec<OsString> = environment.into_iter().map(OsString::from).collect();
        let process = Process::new(name, folder, "/usr/bin/env".as_ref(), Signal::TERM, Signal::KILL);
        let process = environment.iter().fold(process, |process, variable| process.arg(variable));
        let process = process.arg(programs.join("rabbitmq-server"));
        let names = Arc::clone(names);
        Self { port, process, programs, environment, node, _erlang: erlang, _names: names, home }
    }

    /// Its URL, with a virtual host that all tests share.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_through(self.address())
    }

    /// Its URL by way of another address.
    #[must_use]
    pub fn url_through(&self, address: SocketAddr) -> String {
        format!("amqp://guest:guest@{address}")
    }

    /// A prefix that no other test has.
    #[must_use]
    pub fn prefix() -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        format!("test{}.", NEXT.fetch_add(1, Ordering::Relaxed))
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

    /// Runs its command line, which takes a second.
    ///
    /// # Panics
    /// When that fails.
    pub fn ctl(&self, args: &[&str]) {
        let program = self.programs.join("rabbitmqctl");
        let args = [OsString::from(program)].into_iter().chain(args.iter().map(|arg| OsString::from(*arg)));
        let line: Vec<_> = self.environment.iter().cloned().chain(args).collect();
        let since = Instant::now();
        while let Err(said) = run(&self.home, "/usr/bin/env".as_ref(), &line) {
            // It takes connections a moment before it says that it has started.
            let starting = said.contains("requires the 'rabbit' app to be running");
            assert!(starting && since.elapsed() < LONG, "rabbitmqctl failed: {said}");
        }
    }
}

/// Whether a broker takes connections.
fn answers(address: SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(b"AMQP\x00\x00\x09\x01")?;
    stream.read_exact(&mut [0])
}

impl Server for RabbitMq {
    fn start(&mut self) {
        let address = self.address();
        self.process.start(|| answers(address).map_err(|e| e.to_string()));
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
