//! A cluster of Redis or Valkey servers.

use std::net::SocketAddr;
use std::time::Instant;

use redis::cmd;

use super::{Port, Redis, RedisVersion};
use crate::lab::LONG;
use crate::store::Server as _;

const SLOTS: u16 = 16384;
const PRIMARIES: usize = 3;

/// Three primaries, and a replica of the first of them.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<Redis>,
    _buses: Vec<Port>,
}

impl RedisCluster {
    /// A new cluster, which goes when this does. A node that does not answer for half a second is given up by the others.
    ///
    /// # Panics
    /// When it does not come up, or its program is not there and `CI` is set.
    #[must_use]
    pub fn own(version: RedisVersion) -> Option<Self> {
        let buses: Vec<Port> = (0..=PRIMARIES).map(|_| Port::reserve()).collect();
        let mut nodes = Vec::new();
        for bus in &buses {
            let port = bus.number.to_string();
            let settings = [
                "--cluster-enabled",
                "yes",
                "--cluster-port",
                &port,
                "--cluster-node-timeout",
                "500",
                "--appendonly",
                "no",
            ];
            nodes.push(Redis::start_with(version, &settings)?);
        }
        let cluster = Self { nodes, _buses: buses };
        cluster.join();
        Some(cluster)
    }

    fn join(&self) {
        let share = SLOTS / 3 + 1;
        for (node, number) in self.nodes.iter().zip(0..) {
            if usize::from(number) < PRIMARIES {
                let (from, to) = (number * share, ((number + 1) * share).min(SLOTS) - 1);
                node.ask::<()>(cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(from).arg(to));
            }
            for (other, bus) in self.nodes.iter().zip(&self._buses) {
                let address = other.address();
                let mut meet = cmd("CLUSTER");
                meet.arg("MEET").arg(address.ip().to_string()).arg(address.port()).arg(bus.number);
                node.ask::<()>(&meet);
            }
        }
        let first = self.id(0);
        // The replica has to have heard of its primary.
        let mut replicate = cmd("CLUSTER");
        replicate.arg("REPLICATE").arg(&first);
        self.wait("a node follows the first", || {
            replicate.query::<()>(&mut self.nodes[PRIMARIES].connection()).is_ok()
        });
        self.wait("all nodes agree", || {
            self.nodes.iter().all(|node| {
                let info: String = node.ask(cmd("CLUSTER").arg("INFO"));
                info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:4")
            }) && self.nodes[PRIMARIES].ask::<String>(cmd("INFO").arg("replication")).contains("master_link_status:up")
        });
    }

    fn wait(&self, what: &str, is: impl Fn() -> bool) {
        let since = Instant::now();
        while !is() {
            assert!(since.elapsed() < LONG, "not within {LONG:?}: {what}");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    /// The name of a node within the cluster.
    #[must_use]
    pub fn id(&self, node: usize) -> String {
        self.nodes[node].ask(cmd("CLUSTER").arg("MYID"))
    }

    /// Where its nodes listen.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(Redis::address).collect()
    }

    /// A node: the first three are primaries at first, and the last a replica of the first.
    #[must_use]
    pub fn node(&self, node: usize) -> &Redis {
        &self.nodes[node]
    }

    /// Kills a node.
    pub fn kill(&mut self, node: usize) {
        self.nodes[node].kill();
    }
}
