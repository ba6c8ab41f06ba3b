//! What a failed call says about its effect, by the code of the server's error.

use redis::{ErrorKind, RedisError};

use crate::error::{BackendError, BackendErrorKind};

/// Codes of errors before which the server did nothing, but may another time.
const BUSY: &[(&str, &str)] = &[
    ("LOADING", "the server is loading its data"),
    ("BUSY", "the server is running a script of somebody's that takes long"),
    ("MASTERDOWN", "the server has lost its primary"),
    ("READONLY", "the server is a replica, which takes no writes; a failover may be under way"),
    ("OOM", "the server is out of memory (`maxmemory`), so it takes no writes"),
    ("MISCONF", "the server cannot save its data, so it takes no writes"),
    ("NOREPLICAS", "the server has too few replicas to take writes"),
    ("TRYAGAIN", "the cluster is moving the job's keys"),
    ("CLUSTERDOWN", "the cluster is down"),
];

/// Codes of errors that only a person can mend.
const CONFIG: &[(&str, &str)] = &[
    ("NOAUTH", "the server wants a password"),
    ("WRONGPASS", "the server does not accept the user name or password"),
    ("NOPERM", "the server does not let this user do it"),
    ("DENIED", "the server is in protected mode"),
    ("NOPROTO", "the server does not know this version of the protocol"),
    ("WRONGTYPE", "a key of this prefix belongs to something else; choose another `prefix`"),
    ("CROSSSLOT", "the server is a node of a cluster"),
    ("MOVED", "the server is a node of a cluster"),
    ("ASK", "the server is a node of a cluster"),
];

/// Tells what is known of a call that failed so. Nothing of it holds a password.
pub(super) fn sort(backend: &str, error: &RedisError) -> BackendError {
    let (kind, message) = describe(error);
    BackendError::new(backend, kind, message)
}

fn describe(error: &RedisError) -> (BackendErrorKind, String) {
    use BackendErrorKind::{Busy, Config, Refused, Unknown};
    match error.kind() {
        ErrorKind::AuthenticationFailed => {
            return (Config, "the server does not accept the user name or password".to_owned());
        }
        ErrorKind::InvalidClientConfig => return (Config, format!("the connection's settings: {}", shown(error))),
        ErrorKind::MasterNameNotFoundBySentinel => {
            return (Busy, "the sentinels name no primary: the name is wrong, or a failover is under way".to_owned());
        }
        ErrorKind::Parse => return (Config, "what answers there does not speak the protocol of Redis".to_owned()),
        _ if error.code().is_none() => return (Unknown, format!("the connection failed: {}", shown(error))),
        _ => {}
    }
    let said = format!("{} {}", error.code().unwrap_or_default(), error.detail().unwrap_or_default());
    let known = |list: &[(&str, &'static str)]| list.iter().find(|(code, _)| is(&said, code)).map(|(_, text)| *text);
    if said.contains("max number of clients") {
        return (Busy, "the server has as many clients as it may".to_owned());
    }
    match (known(BUSY), known(CONFIG)) {
        (Some(text), _) => (Busy, format!("{text} ({})", short(&said))),
        (_, Some(text)) => (Config, format!("{text} ({})", short(&said))),
        _ if said.contains("unknown command") => (Config, format!("the server is too old: {}", short(&said))),
        _ => (Refused, format!("the server refused the call: {}", short(&said))),
    }
}

/// Servers before 7.0 tell the error of a command in a script inside another one's text.
fn is(said: &str, code: &str) -> bool {
    said.split(' ').next() == Some(code) || (said.starts_with("ERR ") && said.contains(&format!(": -{code} ")))
}

/// Whether the script has to be sent as text: the server was restarted, or its scripts were flushed.
pub(super) fn knows_no_such_script(error: &RedisError) -> bool {
    error.code() == Some("NOSCRIPT")
}

/// Whether the connection is of no more use: it broke, or leads to a server that others have taken the place of.
pub(super) fn needs_new_connection(error: &RedisError) -> bool {
    // Servers before 7.0 wrap what a script's command was told into an error of another code.
    let replica = |said: Option<&str>| said.is_some_and(|said| said.contains("READONLY"));
    error.code().is_none() || replica(error.code()) || replica(error.detail())
}

/// Whether the call should be sent once more at once: the connection broke, perhaps long before the call.
pub(super) fn is_broken_connection(error: &RedisError) -> bool {
    error.is_connection_dropped() || error.is_io_error() && !error.is_timeout()
}

fn shown(error: &RedisError) -> String {
    short(&error.to_string())
}

fn short(text: &str) -> String {
    text.chars().take(300).map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use redis::{Parser, Value};

    use super::*;

    fn error(answer: &str) -> RedisError {
        let value = Parser::new().parse_value(answer.as_bytes()).unwrap();
        let Value::ServerError(error) = value else { panic!("{answer:?} is {value:?}") };
        error.into()
    }

    fn kind(answer: &str) -> BackendErrorKind {
        describe(&error(answer)).0
    }

    #[test]
    fn a_replica_is_left_for_another_server_however_its_error_is_wrapped() {
        for (answer, left) in [
            ("-READONLY You can't write against a read only replica.\r\n", true),
            (
                "-ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -READONLY You can't write\r\n",
                true,
            ),
            ("-OOM command not allowed when used memory > 'maxmemory'.\r\n", false),
        ] {
            assert_eq!(needs_new_connection(&error(answer)), left, "{answer}");
        }
    }

    #[test]
    fn an_error_says_whether_the_call_may_be_repeated() {
        for (answer, expected) in [
            ("-LOADING Redis is loading the dataset in memory\r\n", BackendErrorKind::Busy),
            ("-BUSY Redis is busy running a script.\r\n", BackendErrorKind::Busy),
            ("-MASTERDOWN Link with MASTER is down\r\n", BackendErrorKind::Busy),
            ("-READONLY You can't write against a read only replica.\r\n", BackendErrorKind::Busy),
            (
                "-OOM command not allowed when used memory > 'maxmemory'. script: 1, on @user_script:1.\r\n",
                BackendErrorKind::Busy,
            ),
            (
                "-ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -OOM command not allowed\r\n",
                BackendErrorKind::Busy,
            ),
            ("-ERR max number of clients reached\r\n", BackendErrorKind::Busy),
            ("-NOAUTH Authentication required.\r\n", BackendErrorKind::Config),
            ("-NOPERM this user has no permissions\r\n", BackendErrorKind::Config),
            (
                "-ERR Error running script (call to f_1): @user_script:1: -NOPERM no permissions\r\n",
                BackendErrorKind::Config,
            ),
            ("-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", BackendErrorKind::Config),
            ("-MOVED 3999 127.0.0.1:6381\r\n", BackendErrorKind::Config),
            ("-ERR something else\r\n", BackendErrorKind::Refused),
        ] {
            assert_eq!(kind(answer), expected, "{answer}");
        }
        let io = RedisError::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
        assert_eq!(describe(&io).0, BackendErrorKind::Unknown);
        assert!(needs_new_connection(&io) && is_broken_connection(&io));
    }
}
