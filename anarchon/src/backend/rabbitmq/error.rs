//! What a failed call says about its effect.

use lapin::ErrorKind;
use lapin::protocol::{AMQPError, AMQPErrorKind, AMQPHardError, AMQPSoftError};

use crate::backend::NO_TLS;
use crate::error::{BackendError, BackendErrorKind};

pub(super) const NAME: &str = "rabbitmq";

/// Why a call has no answer.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// No connection could be made.
    Unreachable(lapin::Error),
    /// The connection, or the channel, broke under the call.
    Broken(lapin::Error),
    /// Nothing came in time.
    Silent,
    /// The broker said no, and closed the channel.
    Refused(AMQPError),
}

impl Failure {
    /// Sorts what the client says about a call.
    pub(super) fn of(error: lapin::Error) -> Self {
        match error.kind() {
            ErrorKind::ProtocolError(said) if matches!(said.kind(), AMQPErrorKind::Soft(_)) => {
                Self::Refused(said.clone())
            }
            _ => Self::Broken(error),
        }
    }

    /// An error of this backend, which knows nothing of the call beyond this.
    pub(super) fn sort(&self) -> BackendError {
        use BackendErrorKind::{Busy, Config, Refused, Unknown};
        let (kind, message) = match self {
            Self::Silent => (Unknown, "the broker did not answer in time".to_owned()),
            Self::Broken(error) => (Unknown, format!("the connection failed: {}", short(&error.to_string()))),
            Self::Unreachable(error) => unreachable(error),
            Self::Refused(said) => {
                let text = said.get_message().as_str();
                match said.kind() {
                    AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) => {
                        (Config, format!("the broker does not let this user do it: {}", short(text)))
                    }
                    AMQPErrorKind::Soft(AMQPSoftError::RESOURCELOCKED) => (
                        Config,
                        format!(
                            "a queue of this prefix belongs to something else; choose another `prefix`: {}",
                            short(text)
                        ),
                    ),
                    AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED) if text.contains("limit") => {
                        (Busy, format!("the broker has as many queues as it may: {}", short(text)))
                    }
                    AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED) => (
                        Config,
                        format!("a queue of this prefix is of another kind; choose another `prefix`: {}", short(text)),
                    ),
                    // A queue whose home is another node, which is down.
                    AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND) => {
                        (Unknown, format!("a queue cannot be reached: {}", short(text)))
                    }
                    _ => (Refused, format!("the broker refused the call: {}", short(text))),
                }
            }
        };
        BackendError::new(NAME, kind, message)
    }
}

fn unreachable(error: &lapin::Error) -> (BackendErrorKind, String) {
    use BackendErrorKind::{Config, Unknown};
    match error.kind() {
        ErrorKind::ProtocolError(said) => {
            let text = short(said.get_message().as_str());
            match said.kind() {
                AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) => (
                    Config,
                    format!(
                        "the broker does not accept the user name or password, or not for this virtual host: {text}"
                    ),
                ),
                AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED) => {
                    (Config, format!("the broker does not let this user in: {text}"))
                }
                _ => (Unknown, format!("the broker cannot be reached: {text}")),
            }
        }
        ErrorKind::InvalidProtocolVersion(_) | ErrorKind::ParsingError(_) => {
            (Config, "what answers there does not speak AMQP 0-9-1".to_owned())
        }
        ErrorKind::IOError(io) if io.kind() == std::io::ErrorKind::Unsupported => (Config, NO_TLS.to_owned()),
        ErrorKind::AuthProviderError(_) => (Config, "the broker does not offer this way to log in".to_owned()),
        _ => (Unknown, format!("the broker cannot be reached: {}", short(&error.to_string()))),
    }
}

/// An error of this backend.
pub(super) fn error(kind: BackendErrorKind, message: impl Into<String>) -> BackendError {
    BackendError::new(NAME, kind, message)
}

pub(super) fn short(text: &str) -> String {
    text.chars().take(300).map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_owned()
}
