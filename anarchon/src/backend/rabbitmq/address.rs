//! Where the broker is, and how a connection to it is made.

use std::fmt;

use lapin::tcp::{AMQPUriTcpExt as _, AsyncTcpStream, OwnedTLSConfig};
use lapin::uri::{AMQPScheme, AMQPUri};
use lapin::{Connection, ConnectionProperties};

thread_local! {
    /// Keeps a thread of the client from telling its news to the program's log.
    static QUIET: std::cell::RefCell<Option<tracing::subscriber::DefaultGuard>> = const { std::cell::RefCell::new(None) };
}

/// How often both sides show that they are alive, in seconds, unless the URL says it. The broker's own wish is a minute.
const HEARTBEAT: u16 = 10;

/// How long the network may take to connect, in ms, unless the URL says it.
const CONNECT_MS: u64 = 3000;

/// A broker, or what is wrong with how it was named.
#[derive(Clone)]
pub(super) enum Address {
    Broker { uri: Box<AMQPUri>, tls: OwnedTLSConfig },
    Wrong(String),
}

impl Address {
    pub(super) fn at(location: &str) -> Self {
        let location = location.trim();
        let url = match location.split_once(':') {
            Some(("amqp" | "amqps", _)) => location.to_owned(),
            Some((scheme, rest)) if rest.starts_with("//") => {
                let scheme: String = scheme.chars().filter(char::is_ascii_alphanumeric).take(16).collect();
                return Self::Wrong(format!("`{scheme}:` is no scheme of RabbitMQ; write `amqp:` or `amqps:`"));
            }
            _ => format!("amqp://{location}"),
        };
        // The error's text might hold the URL, and a URL holds the password.
        match url.parse::<AMQPUri>() {
            Ok(uri) if !uri.authority.host.is_empty() => Self::uri(uri),
            _ => Self::Wrong("the URL cannot be read; write `amqp://user:password@host:port/vhost`".to_owned()),
        }
    }

    pub(super) fn uri(uri: AMQPUri) -> Self {
        Self::Broker { uri: Box::new(uri), tls: OwnedTLSConfig::default() }
    }

    pub(super) fn with_tls(self, config: OwnedTLSConfig) -> Self {
        match self {
            Self::Broker { uri, .. } => Self::Broker { uri, tls: config },
            wrong @ Self::Wrong(_) => wrong,
        }
    }

    /// A new connection. It has a thread of its own, and its tasks are on the caller's runtime.
    pub(super) async fn connect(&self, name: &str) -> lapin::Result<Connection> {
        let (mut uri, tls) = match self {
            Self::Broker { uri, tls } => (uri.as_ref().clone(), tls.clone()),
            Self::Wrong(why) => return Err(std::io::Error::other(why.clone()).into()),
        };
        uri.query.heartbeat.get_or_insert(HEARTBEAT);
        uri.query.connection_timeout.get_or_insert(CONNECT_MS);
        let properties = ConnectionProperties::default().with_connection_name(name.into());
        let connect = async move |uri: AMQPUri, runtime| {
            // This is the thread that reads from the broker. The client logs each channel that the broker closes as an
            // error, but here that is how a claim is lost; what is an error comes back as one.
            QUIET.with_borrow_mut(|quiet| {
                quiet.get_or_insert_with(|| tracing::subscriber::set_default(tracing::subscriber::NoSubscriber::new()));
            });
            let stream = uri.connect_with_config_async(tls.as_ref(), &runtime).await?;
            // Without TLS compiled in, the client would send the password as it is.
            if uri.scheme == AMQPScheme::AMQPS && matches!(stream, AsyncTcpStream::Plain(_)) {
                return Err(std::io::Error::from(std::io::ErrorKind::Unsupported).into());
            }
            Ok(stream)
        };
        Connection::connector(uri, lapin::runtime::default_runtime()?, connect, properties).await
    }
}

impl fmt::Debug for Address {
    /// Never shows a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broker { uri, .. } => {
                let AMQPUri { scheme, authority, vhost, .. } = uri.as_ref();
                write!(f, "{scheme}://{}:{} vhost {vhost:?}", authority.host, authority.port)
            }
            Self::Wrong(why) => f.write_str(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_are_named_by_urls_or_by_host_and_port() {
        for (location, shown) in [
            ("amqp://localhost", "amqp://localhost:5672 vhost \"/\""),
            ("localhost", "amqp://localhost:5672 vhost \"/\""),
            ("10.0.0.1:7000", "amqp://10.0.0.1:7000 vhost \"/\""),
            ("amqps://user:secret@mq", "amqps://mq:5671 vhost \"/\""),
            ("amqp://user:secret@mq:1/billing?heartbeat=5", "amqp://mq:1 vhost \"billing\""),
        ] {
            assert_eq!(format!("{:?}", Address::at(location)), shown, "{location}");
        }
    }

    #[test]
    fn a_wrong_location_is_told_without_its_password() {
        for wrong in
            ["http://u:secret@h", "amqp://u:secret@h:notaport", "amqp://u:secret@", "amqp://u:secret@h?heartbeat=x"]
        {
            let address = Address::at(wrong);
            assert!(matches!(address, Address::Wrong(_)), "{wrong}");
            assert!(!format!("{address:?}").contains("secret"), "{address:?}");
        }
    }
}
