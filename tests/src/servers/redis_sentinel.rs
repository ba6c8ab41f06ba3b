//! A server, its replica, and a sentinel that puts the one in the place of the other.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use redis::cmd;
use rustix::process::Signal;

use super::process::{Process, folder};
use super::{Port, Redis, RedisVersion, component};
use crate::lab::LONG;
use crate::store::Server as _;

/// What the sentinel calls the server.
const NAME: &str = "main";

/// A primary, a replica and a sentinel.
#[derive(Debug)]
pub struct RedisSentinel {
    primary: Redis,
    /// It takes over, so it must live as long.
    replica: Redis,
    port: Port,
    _process: Process,
}

impl RedisSentinel {
    /// New servers, which go when this does. A primary that does not answer for half a second is replaced.
    ///
    /// # Panics
    /// When one does not start, or its program is not there and `CI` is set.
    #[must_use]
    pub fn own(version: RedisVersion) -> Option<Self> {
        let name = version.component();
        let program = component(name)?.join(format!("{}-server", version.scheme()));
        let (primary, replica) = (Redis::own(version)?, Redis::own(version)?);
        let (at, port, folder) = (primary.address(), Port::reserve(), folder(name));
        replica.ask::<()>(cmd("REPLICAOF").arg(at.ip().to_string()).arg(at.port()));
        let settings = format!(
            "port {}\nbind 127.0.0.1\nsentinel monitor {NAME} {} {} 1\nsentinel down-after-milliseconds {NAME} 500\n\
             sentinel failover-timeout {NAME} 5000\n",
            port.number,
            at.ip(),
            at.port()
        );
        // It writes there what it learns.
        let file = folder.path().join("sentinel.conf");
        std::fs::write(&file, settings).expect("a file of settings");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).expect("our own file");
        let mut process = Process::new(name, folder, &program, Signal::TERM, Signal::KILL).arg(file).arg("--sentinel");
        let url = format!("redis://{}", port.address());
        process.start(|| {
            let mut connection = super::redis::connect(&url).map_err(|e| e.to_string())?;
            cmd("PING").query::<String>(&mut connection).map(drop).map_err(|e| e.to_string())
        });
        let all = Self { primary, replica, port, _process: process };
        all.wait("it knows the replica", || {
            let info: String = cmd("INFO").arg("sentinel").query(&mut super::redis::connect(&url)?)?;
            let replication: String = all.replica.ask(cmd("INFO").arg("replication"));
            Ok(info.contains("slaves=1") && replication.contains("master_link_status:up"))
        });
        Some(all)
    }

    /// Where the sentinel listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// What the sentinel calls the primary.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        NAME
    }

    /// Kills the primary, and waits until the replica has its place.
    ///
    /// # Panics
    /// When it does not take it.
    pub fn fail_over(&mut self) {
        self.primary.kill();
        self.wait("the replica takes over", || {
            Ok(self.replica.ask::<String>(cmd("INFO").arg("replication")).contains("role:master"))
        });
    }

    fn wait(&self, what: &str, is: impl Fn() -> redis::RedisResult<bool>) {
        let since = Instant::now();
        while !is().unwrap_or(false) {
            assert!(since.elapsed() < LONG, "not within {LONG:?}: {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
