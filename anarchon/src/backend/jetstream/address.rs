//! Where the servers are, or whose connection leads there.

use std::fmt;
use std::str::FromStr as _;

use async_nats::{Client, ConnectOptions, ServerAddr};

/// What leads to the servers.
pub(in crate::backend) enum Address {
    /// Addresses, to which a connection of our own is made, and how, if not as usual.
    Servers(Vec<ServerAddr>, Option<Box<ConnectOptions>>),
    /// The application's own connection.
    Given(Client),
    /// No address at all, and why; told at start.
    Wrong(String),
}

impl Address {
    /// The servers in a list with commas: each a URL, or `host` or `host:port`. What the first one says of a user goes
    /// for those that say nothing.
    pub(in crate::backend) fn at(servers: &str) -> Self {
        let servers: Vec<&str> = servers.split(',').map(str::trim).filter(|server| !server.is_empty()).collect();
        let mut all = Vec::new();
        for server in servers {
            match server.split_once("://") {
                Some((scheme, _)) if !matches!(scheme, "nats" | "tls") => {
                    let scheme: String = scheme.chars().filter(char::is_ascii_alphanumeric).take(16).collect();
                    return Self::Wrong(format!("`{scheme}:` is no scheme of NATS; `nats:` and `tls:` are"));
                }
                _ => {}
            }
            match ServerAddr::from_str(server) {
                Ok(server) => all.push(server),
                // The error might hold the URL, and a URL holds the password.
                Err(_) => return Self::Wrong("the URL cannot be read".to_owned()),
            }
        }
        if all.is_empty() { Self::Wrong("no server is named".to_owned()) } else { Self::Servers(all, None) }
    }

    /// The same servers, connected to in the application's own way.
    pub(in crate::backend) fn with_options(self, options: ConnectOptions) -> Self {
        match self {
            Self::Servers(servers, _) => Self::Servers(servers, Some(Box::new(options))),
            other => other,
        }
    }
}

/// The user and password, or the token, that the first URL with any holds.
pub(super) fn credentials(servers: &[ServerAddr]) -> Option<(String, Option<String>)> {
    let server = servers.iter().find(|server| server.has_user_pass())?;
    Some((decoded(server.username()?), server.password().map(decoded)))
}

/// Text of a URL, in which `%` and two hex digits stand for a byte.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl fmt::Debug for Address {
    /// Never shows a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Servers(servers, _) => {
                let shown: Vec<String> = servers.iter().map(|s| format!("{}:{}", s.host(), s.port())).collect();
                f.write_str(&shown.join(","))
            }
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
        for (servers, shown) in [
            ("nats://localhost", "localhost:4222"),
            ("localhost", "localhost:4222"),
            ("10.0.0.1:7000", "10.0.0.1:7000"),
            ("tls://user:secret@n1:1", "n1:1"),
            ("nats://user:secret@n1, n2:7,nats://n3", "n1:4222,n2:7,n3:4222"),
        ] {
            assert_eq!(format!("{:?}", Address::at(servers)), shown, "{servers}");
        }
    }

    #[test]
    fn credentials_are_those_of_the_first_url_that_has_any() {
        for (servers, user, password) in
            [("n1,nats://u:p%40ss%2f@n2,nats://x:y@n3", "u", Some("p@ss/")), ("nats://t0ken@n1", "t0ken", None)]
        {
            let Address::Servers(servers, None) = Address::at(servers) else { panic!("{servers}") };
            assert_eq!(credentials(&servers), Some((user.to_owned(), password.map(str::to_owned))));
        }
    }

    #[test]
    fn a_wrong_location_is_told_without_its_password() {
        for wrong in ["http://u:secret@h", "nats://u:secret@h:notaport", "nats://u:secret@h,redis://h", " , "] {
            let address = Address::at(wrong);
            assert!(matches!(address, Address::Wrong(_)), "{wrong}");
            assert!(!format!("{address:?}").contains("secret"), "{address:?}");
        }
    }
}
