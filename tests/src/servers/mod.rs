//! Real servers, which tests start, kill, freeze and start again, each on a port and in a folder of its own.
//!
//! `tests/services` fetches them; a program of tests looks for them in the folder `ANARCHON_SERVICES`, or else in
//! `target/services`. A server that is not there is a failure where `CI` is set. Elsewhere it is told on the terminal, and
//! the constructors return `None`, upon which a test returns.
//!
//! A server that is `shared` is started once for a program of tests, when the first test asks for it; each test has a
//! database of its own there. Such servers take no part in [`Server::kill`](crate::Server::kill): a test that kills has a server of its `own`.
//! All of them end with the program, however it ends, and leave nothing behind.

#[cfg(feature = "tls")]
mod certificates;
mod database;
mod mariadb;
mod nats;
mod pgbouncer;
mod postgres;
mod process;
mod rabbitmq;
mod redis;
mod redis_cluster;
mod redis_sentinel;
mod sqld;

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};

#[cfg(feature = "tls")]
pub use certificates::Certificates;
pub use database::{Database, DatabaseServer};
pub use mariadb::MariaDb;
pub use nats::{Nats, NatsCluster, NatsVersion};
pub use pgbouncer::{PgBouncer, PgBouncerVersion};
pub use postgres::{Postgres, PostgresVersion};
pub use rabbitmq::{RabbitMq, RabbitMqVersion};
pub use redis::{Redis, RedisVersion};
pub use redis_cluster::RedisCluster;
pub use redis_sentinel::RedisSentinel;
pub use sqld::Sqld;

/// Where a component that `tests/services` fetches is. If it is not there, that is told.
///
/// # Panics
/// When it is not there and `CI` is set.
fn component(name: &str) -> Option<PathBuf> {
    let given = std::env::var_os("ANARCHON_SERVICES").map(PathBuf::from);
    let folder =
        given.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target").join("services"));
    let path = folder.join("bin").join(name);
    if path.exists() {
        // Servers have other working directories.
        return Some(std::path::absolute(path).expect("there is a working directory"));
    }
    let what = format!("`{name}` is not in {}: `tests/services {name}` fetches it", folder.display());
    assert!(std::env::var_os("CI").is_none(), "{what}");
    // Not by a macro, whose output is withheld for tests that pass.
    let _ = writeln!(std::io::stderr(), "\nSKIPPED: {}: {what}", std::thread::current().name().unwrap_or("a test"));
    None
}

/// A port of the loopback device that no other server of ours has, in any program, for as long as this lives.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _reserved: UdpSocket,
}

impl Port {
    /// Reserves one.
    ///
    /// # Panics
    /// When none is free.
    #[must_use]
    pub fn reserve() -> Self {
        // Below those that the system gives to clients, who might take it while the server is down.
        const PORTS: std::ops::Range<u16> = 12_000..32_000;
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let begin = u16::try_from(std::process::id().wrapping_mul(7919) % u32::from(u16::MAX)).unwrap_or_default();
        for _ in PORTS {
            let next = begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
            let number = PORTS.start + next % (PORTS.end - PORTS.start);
            // The same number of the other protocol is what tells our programs from each other.
            let Ok(reserved) = UdpSocket::bind((Ipv4Addr::LOCALHOST, number)) else { continue };
            if TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
                return Self { number, _reserved: reserved };
            }
        }
        panic!("no port is free");
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }
}

/// Runs a future to its end, on a thread of its own: the caller may be inside a runtime.
fn block_on<F>(future: F) -> F::Output
where
    F: Future + Send,
    F::Output: Send,
{
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(future)
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
