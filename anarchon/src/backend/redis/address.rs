//! Where the server is, or whose connection leads there, and connections of all kinds behind one face.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use redis::aio::ConnectionLike;
#[cfg(feature = "redis-cluster")]
use redis::cluster::{ClusterClient, ClusterConfig};
#[cfg(feature = "redis-sentinel")]
use redis::sentinel::SentinelClient;
use redis::{AsyncConnectionConfig, Client, Cmd, ConnectionAddr, Pipeline, RedisResult, Value};

use crate::backend::NO_TLS;

/// How long it is tried to connect. Nothing waits that long but the first call: others have deadlines of their own.
const CONNECT: Duration = Duration::from_secs(5);

/// After this long, an answer is not on its way any more.
const SILENCE: Duration = Duration::from_secs(60);

/// How long a node of a cluster is waited for before another is asked who has its place.
#[cfg(feature = "redis-cluster")]
const NODE: Duration = Duration::from_secs(3);

/// A connection of ours, or of the application's.
pub(super) trait Connection: Send + Sync {
    fn send<'a>(&self, command: &'a Cmd) -> BoxFuture<'a, RedisResult<Value>>;

    /// Commands that go together.
    fn send_all<'a>(&self, commands: &'a Pipeline) -> BoxFuture<'a, RedisResult<Vec<Value>>>;
}

struct Shared<C>(C);

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Connection for Shared<C> {
    fn send<'a>(&self, command: &'a Cmd) -> BoxFuture<'a, RedisResult<Value>> {
        let mut connection = self.0.clone();
        async move { connection.req_packed_command(command).await }.boxed()
    }

    fn send_all<'a>(&self, commands: &'a Pipeline) -> BoxFuture<'a, RedisResult<Vec<Value>>> {
        let mut connection = self.0.clone();
        async move { connection.req_packed_commands(commands, 0, commands.len()).await }.boxed()
    }
}

/// What leads to the server.
pub(super) enum Address {
    /// An address, to which connections of our own are made.
    Server(Box<Client>),
    /// Those of a cluster's nodes.
    #[cfg(feature = "redis-cluster")]
    Cluster(Box<ClusterClient>),
    /// Those of sentinels, which know where the server is at the time.
    #[cfg(feature = "redis-sentinel")]
    Sentinel(Box<tokio::sync::Mutex<SentinelClient>>),
    /// A connection of the application's.
    Given(Arc<dyn Connection>),
    /// No address at all, and why; told at start.
    Wrong(String),
}

impl Address {
    /// The server at a URL, or at `host` or `host:port`.
    pub(super) fn at(location: &str) -> Self {
        let location = location.trim();
        let url = match location.split_once(':') {
            Some(("redis" | "rediss" | "valkey" | "valkeys" | "redis+unix" | "valkey+unix", _)) => location.to_owned(),
            Some(("unix", path)) if !path.starts_with("//") => format!("unix://{path}"),
            Some(("unix", _)) => location.to_owned(),
            Some((scheme, rest)) if rest.starts_with("//") => {
                let scheme: String = scheme.chars().filter(char::is_ascii_alphanumeric).take(16).collect();
                return Self::Wrong(format!("`{scheme}:` is no scheme of Redis or Valkey"));
            }
            _ => format!("redis://{location}"),
        };
        let tls = url.starts_with("rediss:") || url.starts_with("valkeys:");
        match Client::open(url) {
            Ok(client) => Self::client(client),
            Err(_) if tls && !cfg_tls() => Self::Wrong(NO_TLS.to_owned()),
            // The error's detail might hold the URL, and a URL holds the password.
            Err(error) => Self::Wrong(format!("the URL cannot be read ({})", error.category())),
        }
    }

    pub(super) fn client(client: Client) -> Self {
        if client.get_connection_info().addr().is_supported() {
            Self::Server(Box::new(client))
        } else {
            Self::Wrong(format!(
                "`{}` cannot be reached by this program: its way of connecting is not compiled in",
                client.get_connection_info().addr()
            ))
        }
    }

    /// A new connection of our own, if this is an address.
    ///
    /// How long an answer may take is the caller's business; the crate would give up after half a second. It also loses
    /// a request that is handed to a connection in the moment in which that one's task ends, and says so to nobody: such
    /// a wait must end some day also where the caller has no deadline.
    pub(super) async fn connect(&self) -> RedisResult<Option<Arc<dyn Connection>>> {
        let config =
            AsyncConnectionConfig::new().set_response_timeout(Some(SILENCE)).set_connection_timeout(Some(CONNECT));
        match self {
            Self::Server(client) => {
                #[cfg(feature = "tls")]
                if let ConnectionAddr::TcpTls { .. } = client.get_connection_info().addr() {
                    choose_cryptography();
                }
                let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
                Ok(Some(Arc::new(Shared(connection))))
            }
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(client) => {
                #[cfg(feature = "tls")]
                choose_cryptography();
                let config = ClusterConfig::new().set_response_timeout(NODE).set_connection_timeout(NODE);
                let connection = client.get_async_connection_with_config(config).await?;
                Ok(Some(Arc::new(Shared(connection))))
            }
            // They are asked each time: after a failover the server is another one.
            #[cfg(feature = "redis-sentinel")]
            Self::Sentinel(client) => {
                #[cfg(feature = "tls")]
                choose_cryptography();
                let connection = client.lock().await.get_async_connection_with_config(&config).await?;
                Ok(Some(Arc::new(Shared(connection))))
            }
            Self::Given(_) | Self::Wrong(_) => Ok(None),
        }
    }

    /// Whether what leads there is a cluster, of which each node has some of the jobs.
    pub(super) fn is_cluster(&self) -> bool {
        #[cfg(feature = "redis-cluster")]
        if matches!(self, Self::Cluster(_)) {
            return true;
        }
        false
    }

    pub(super) fn given(connection: impl ConnectionLike + Clone + Send + Sync + 'static) -> Self {
        Self::Given(Arc::new(Shared(connection)))
    }
}

/// Sets the process's default for rustls, unless it has one. The client takes that default, and panics where there is none
/// because other crates of the program bring a second library of cryptography.
#[cfg(feature = "tls")]
fn choose_cryptography() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Who else has set it meanwhile has done as well.
        drop(rustls::crypto::ring::default_provider().install_default());
    }
}

/// Whether the `redis` crate can encrypt, which is not for us to say but for whoever else enables its features.
fn cfg_tls() -> bool {
    let address = ConnectionAddr::TcpTls { host: String::new(), port: 0, insecure: false, tls_params: None };
    address.is_supported()
}

impl fmt::Debug for Address {
    /// Never shows a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(client) => write!(f, "{}", client.get_connection_info().addr()),
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(_) => f.write_str("a cluster"),
            #[cfg(feature = "redis-sentinel")]
            Self::Sentinel(_) => f.write_str("a server that sentinels name"),
            Self::Given(_) => f.write_str("a connection of the application"),
            Self::Wrong(why) => f.write_str(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_by_urls_or_by_host_and_port() {
        for (location, shown) in [
            ("redis://localhost", "localhost:6379"),
            ("localhost", "localhost:6379"),
            ("10.0.0.1:7000", "10.0.0.1:7000"),
            ("valkey://user:secret@db:1/2", "db:1"),
            ("redis://:secret@[::1]:7/3", "::1:7"),
            ("unix:///run/redis.sock", "/run/redis.sock"),
            ("unix:/run/redis.sock", "/run/redis.sock"),
            ("redis+unix:///run/redis.sock?db=1", "/run/redis.sock"),
        ] {
            let shown_as = format!("{:?}", Address::at(location));
            assert_eq!(shown_as.replace(['[', ']'], ""), shown, "{location}");
        }
    }

    #[test]
    fn a_url_with_tls_says_what_it_needs() {
        if !cfg_tls() {
            let address = format!("{:?}", Address::at("rediss://u:secret@h:7"));
            assert!(address.contains("`tls`") && !address.contains("secret"), "{address}");
        }
    }

    #[test]
    fn a_wrong_location_is_told_without_its_password() {
        for wrong in
            ["http://u:secret@h", "redis://u:secret@h:notaport", "redis://u:secret@/x", "redis://u:secret@h/db"]
        {
            let address = Address::at(wrong);
            assert!(matches!(address, Address::Wrong(_)), "{wrong}");
            assert!(!format!("{address:?}").contains("secret"), "{address:?}");
        }
    }
}
