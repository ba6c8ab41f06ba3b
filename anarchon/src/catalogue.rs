//! The catalogue of store drivers by URL scheme, open to other crates. The only file that names `linkme`.
//!
//! A crate adds a driver of its own with
//!
//! ```
//! use anarchon::catalogue::{DRIVERS, Driver};
//! use anarchon::{AnyBackend, MemoryBackend};
//!
//! #[anarchon::catalogue::linkme::distributed_slice(DRIVERS)]
//! #[linkme(crate = anarchon::catalogue::linkme)]
//! static MINE: Driver = Driver {
//!     schemes: &["mine"],
//!     feature: None,
//!     open: |_url| Ok(anarchon::catalogue::leases(MemoryBackend::new())),
//! };
//!
//! # fn main() {
//! assert!(AnyBackend::connect("mine:").is_ok());
//! # }
//! ```

use std::fmt;
use std::sync::Arc;

pub use linkme;

use crate::backend::{AnyStrength, ClaimBackend, ClaimOnly, DynStore, LeaseBackend, Leases};
use crate::error::Error;

/// One store driver.
pub struct Driver {
    /// The URL schemes it serves, without the colon.
    pub schemes: &'static [&'static str],
    /// The cargo feature it comes with, for messages.
    pub feature: Option<&'static str>,
    /// Makes the backend for a URL; nothing connects yet. The text of an error must hold no password.
    pub open: fn(&str) -> Result<Arc<dyn DynStore>, String>,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("schemes", &self.schemes).finish_non_exhaustive()
    }
}

/// Every driver that is linked into the program.
#[allow(unsafe_code)]
#[linkme::distributed_slice]
pub static DRIVERS: [Driver];

/// What a driver returns for a store with leases.
pub fn leases(backend: impl LeaseBackend) -> Arc<dyn DynStore> {
    AnyStrength::<Leases>::erase(backend)
}

/// What a driver returns for a claim-only store.
pub fn claims(backend: impl ClaimBackend) -> Arc<dyn DynStore> {
    AnyStrength::<ClaimOnly>::erase(backend)
}

#[allow(unsafe_code)]
#[linkme::distributed_slice(DRIVERS)]
static MEMORY: Driver =
    Driver { schemes: &["memory"], feature: None, open: |_| Ok(leases(crate::backend::MemoryBackend::new())) };

#[cfg(feature = "sqlite")]
#[allow(unsafe_code)]
#[linkme::distributed_slice(DRIVERS)]
static SQLITE: Driver = Driver {
    schemes: &["sqlite", "file"],
    feature: Some("sqlite"),
    open: |url| Ok(leases(crate::backend::SqliteBackend::new(url))),
};

#[cfg(feature = "postgres")]
#[allow(unsafe_code)]
#[linkme::distributed_slice(DRIVERS)]
static POSTGRES: Driver = Driver {
    schemes: &["postgres", "postgresql"],
    feature: Some("postgres"),
    open: |url| Ok(leases(crate::backend::PostgresBackend::new(url))),
};

#[cfg(feature = "mysql")]
#[allow(unsafe_code)]
#[linkme::distributed_slice(DRIVERS)]
static MYSQL: Driver = Driver {
    schemes: &["mysql", "mariadb"],
    feature: Some("mysql"),
    open: |url| Ok(leases(crate::backend::MySqlBackend::new(url))),
};

#[cfg(feature = "libsql")]
#[allow(unsafe_code)]
#[linkme::distributed_slice(DRIVERS)]
static LIBSQL: Driver = Driver {
    schemes: &["libsql", "https", "http"],
    feature: Some("libsql"),
    open: |url| Ok(leases(crate::backend::LibsqlBackend::open(url)?)),
};

#[cfg(feature = "redis")]
#[allow(unsafe_code)]
#[linkme::distributed_slice(DRIVERS)]
static REDIS: Driver = Driver {
    schemes: &["redis", "rediss", "unix"],
    feature: Some("redis"),
    open: |url| Ok(leases(crate::backend::RedisBackend::new(url))),
};

#[cfg(feature = "redis")]
#[allow(unsafe_code)]
#[linkme::distributed_slice(DRIVERS)]
static VALKEY: Driver = Driver {
    schemes: &["valkey", "valkeys"],
    feature: Some("redis"),
    open: |url| Ok(leases(crate::backend::ValkeyBackend::new(url))),
};

#[cfg(feature = "nats")]
#[allow(unsafe_code)]
#[linkme::distributed_slice(DRIVERS)]
static NATS_KV: Driver = Driver {
    schemes: &["nats-kv"],
    feature: Some("nats"),
    open: |url| Ok(leases(crate::backend::NatsKvBackend::open(url)?)),
};

#[cfg(feature = "nats")]
#[allow(unsafe_code)]
#[linkme::distributed_slice(DRIVERS)]
static NATS: Driver = Driver {
    schemes: &["nats"],
    feature: Some("nats"),
    open: |url| Ok(claims(crate::backend::NatsBackend::open(url)?)),
};

#[cfg(feature = "rabbitmq")]
#[allow(unsafe_code)]
#[linkme::distributed_slice(DRIVERS)]
static RABBITMQ: Driver = Driver {
    schemes: &["amqp", "amqps"],
    feature: Some("rabbitmq"),
    open: |url| Ok(claims(crate::backend::RabbitMqBackend::new(url))),
};

/// Schemes that come with a feature, for the hint when it is off.
const KNOWN: &[(&str, &str)] = &[
    ("sqlite", "sqlite"),
    ("file", "sqlite"),
    ("postgres", "postgres"),
    ("postgresql", "postgres"),
    ("mysql", "mysql"),
    ("mariadb", "mysql"),
    ("libsql", "libsql"),
    ("https", "libsql"),
    ("http", "libsql"),
    ("redis", "redis"),
    ("rediss", "redis"),
    ("unix", "redis"),
    ("valkey", "redis"),
    ("valkeys", "redis"),
    ("nats-kv", "nats"),
    ("nats", "nats"),
    ("amqp", "rabbitmq"),
    ("amqps", "rabbitmq"),
];

pub(crate) fn open(url: &str) -> Result<Arc<dyn DynStore>, Error> {
    let Some((scheme, _)) = url.split_once(':') else {
        return Err(Error::Url(format!(
            "a store's URL begins with a scheme, as in `sqlite:./anarchon.db`; known here: {}",
            known()
        )));
    };
    match DRIVERS.iter().find(|driver| driver.schemes.contains(&scheme)) {
        Some(driver) => (driver.open)(url).map_err(|reason| Error::Url(format!("the `{scheme}:` URL: {reason}"))),
        None => Err(Error::Url(unknown(scheme))),
    }
}

/// What is said of a store without leases where one with leases is asked for.
pub(crate) fn only_claims(url: &str, name: &str) -> String {
    let scheme = url.split(':').next().unwrap_or_default();
    let (example, others) = match scheme {
        "nats" => ("NatsBackend", "; on the same servers, `nats-kv:` holds leases"),
        "amqp" | "amqps" => ("RabbitMqBackend", ""),
        _ => ("…", ""),
    };
    format!(
        "the `{scheme}:` URL: `{name}` only claims and holds no leases, which jobs may ask for here; name the store in the \
         program, as in `anarchon::main!({example})`, or use `AnyClaimBackend`, so that options which need leases are \
         refused{others}"
    )
}

fn unknown(scheme: &str) -> String {
    let scheme: String = scheme.chars().take(32).map(|c| if c.is_control() { '?' } else { c }).collect();
    match KNOWN.iter().find(|(known, _)| *known == scheme) {
        Some((_, feature)) => {
            format!("`{scheme}:` needs the cargo feature `{feature}` of anarchon, which is off")
        }
        None => format!("no store driver for `{scheme}:` is linked into this program; known here: {}", known()),
    }
}

fn known() -> String {
    let mut schemes: Vec<String> = DRIVERS.iter().flat_map(|d| d.schemes).map(|s| format!("`{s}:`")).collect();
    schemes.sort();
    schemes.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_has_a_driver_or_is_told_its_feature() {
        for (scheme, feature) in KNOWN {
            match DRIVERS.iter().find(|driver| driver.schemes.contains(scheme)) {
                Some(driver) => assert_eq!(driver.feature, Some(*feature)),
                None => {
                    let error = open(&format!("{scheme}://host/db")).expect_err("no driver").to_string();
                    assert!(error.contains(&format!("`{scheme}:` needs the cargo feature `{feature}`")), "{error}");
                }
            }
        }
    }
}
