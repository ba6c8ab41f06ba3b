//! What kind of server there is, and whether it will do.

use redis::Value;

use crate::backend::ServerInfo;

/// The oldest server whose scripts may read its clock and write.
const OLDEST: u32 = 5;

/// The oldest Redis with idempotent XADD.
const IDMP_SINCE: (u32, u32) = (8, 6);

/// What a server says of itself, as far as it lets us ask.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Server {
    name: String,
    version: String,
    cluster: bool,
    policy: Option<String>,
}

impl Server {
    /// From the answer to `INFO`.
    pub(super) fn from_info(info: &str) -> Self {
        let field = |name: &str| {
            info.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
                .map(|value| value.trim().to_owned())
        };
        // Valkey also tells which Redis it is compatible with.
        let valkey = field("valkey_version");
        Self {
            name: if valkey.is_some() { "Valkey" } else { "Redis" }.to_owned(),
            version: valkey.or_else(|| field("redis_version")).unwrap_or_else(|| "of unknown version".to_owned()),
            cluster: field("cluster_enabled").as_deref() == Some("1"),
            policy: field("maxmemory_policy"),
        }
    }

    /// Why it will not do.
    pub(super) fn refusal(&self, as_cluster: bool) -> Option<String> {
        let major = self.version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        if major.is_some_and(|major| major < OLDEST) {
            return Some(format!("{} {} is too old: it must be {OLDEST}.0 or newer", self.name, self.version));
        }
        if self.cluster && !as_cluster {
            return Some(format!(
                "{} {} is a node of a cluster, which this connection cannot follow; give a cluster client to \
                 `from_cluster`",
                self.name, self.version
            ));
        }
        None
    }

    /// Why idempotent XADD is not to be had.
    pub(super) fn lacks_idmp(&self) -> Option<String> {
        let mut numbers = self.version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        let has = self.name == "Redis" && version >= IDMP_SINCE;
        (!has).then(|| {
            format!("the `idmp` strategy needs Redis 8.6 or newer, and this is {} {}", self.name, self.version)
        })
    }

    /// What people should know about it.
    pub(super) fn into_info(self) -> ServerInfo {
        let mut info = ServerInfo::new(format!("{} {}", self.name, self.version));
        if let Some(policy) = self.policy.filter(|policy| policy != "noeviction") {
            info.warnings.push(format!(
                "the server's `maxmemory-policy` is `{policy}`: when its memory is full it may drop leases and decided \
                 slots, so that runs are lost or start twice; set it to `noeviction`"
            ));
        }
        info
    }
}

/// The text of an answer.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        // Each node of a cluster has its own.
        Value::Map(nodes) => nodes.first().and_then(|(_, value)| text(value)),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_will_not_do_are_refused_by_name_and_version() {
        let server = |lines: &[&str]| Server::from_info(&lines.join("\r\n"));
        assert_eq!(server(&["redis_version:7.0.15", "maxmemory_policy:noeviction"]).refusal(false), None);
        let old = server(&["# Server", "redis_version:4.0.14"]).refusal(false).unwrap();
        assert!(old.contains("Redis 4.0.14"), "{old}");
        let node =
            server(&["redis_version:7.2.4", "valkey_version:8.0.1", "cluster_enabled:1"]).refusal(false).unwrap();
        assert_eq!(server(&["redis_version:7.2.4", "cluster_enabled:1"]).refusal(true), None);
        assert!(node.contains("Valkey 8.0.1 is a node of a cluster"), "{node}");
        assert_eq!(server(&[]).refusal(false), None);
    }

    #[test]
    fn a_server_without_idempotent_xadd_is_refused_by_name_and_version() {
        for (info, has) in [
            ("redis_version:8.6.3", true),
            ("redis_version:9.0.0", true),
            ("redis_version:8.4.9", false),
            ("redis_version:7.2.4\r\nvalkey_version:9.1.2", false),
        ] {
            let refusal = Server::from_info(info).lacks_idmp();
            assert_eq!(refusal.is_none(), has, "{refusal:?}");
        }
        let valkey = Server::from_info("redis_version:7.2.4\r\nvalkey_version:9.1.2").lacks_idmp().unwrap();
        assert!(valkey.contains("Valkey 9.1.2"), "{valkey}");
    }

    #[test]
    fn an_evicting_policy_is_warned_about() {
        let info = |policy: &str| {
            Server::from_info(&format!("redis_version:7.0.15\r\nmaxmemory_policy:{policy}\r\n")).into_info()
        };
        assert_eq!(info("noeviction"), ServerInfo::new("Redis 7.0.15"));
        for policy in ["allkeys-lru", "volatile-ttl"] {
            assert!(info(policy).warnings[0].contains(policy));
        }
    }
}
