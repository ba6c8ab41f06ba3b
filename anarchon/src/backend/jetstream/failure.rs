//! What a failed request says about its effect.

use async_nats::client::{RequestError, RequestErrorKind};
use async_nats::jetstream::{Error as ApiError, ErrorCode};
use async_nats::{ConnectError, ConnectErrorKind};

use crate::error::{BackendError, BackendErrorKind};

/// Why a request to JetStream was not granted.
#[derive(Debug)]
pub(in crate::backend) enum Failure {
    /// There was no connection to send it on, and none could be made.
    Unsent(String),
    /// The servers do not let us in, or do not speak as we do.
    Refused(String),
    /// Nobody listened to its subject.
    Nobody,
    /// No answer came: it may have been carried out.
    Silence(String),
    /// The answer was no.
    No(ApiError),
    /// It was not sent, as the server takes no message of that size.
    TooLarge,
    /// The answer was not understood.
    Strange(String),
}

impl Failure {
    /// Of a connection that could not be made.
    pub(super) fn to_connect(error: &ConnectError) -> Self {
        match error.kind() {
            ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                Self::Refused("the server does not accept the user name, password or credentials".to_owned())
            }
            ConnectErrorKind::Tls => Self::Refused(format!("TLS: {}", short(&error.to_string()))),
            _ => Self::Unsent(short(&error.to_string())),
        }
    }

    /// Of a request that the client gave up.
    pub(super) fn of(error: &RequestError) -> Self {
        match error.kind() {
            RequestErrorKind::NoResponders => Self::Nobody,
            RequestErrorKind::MaxPayloadExceeded => Self::TooLarge,
            RequestErrorKind::TimedOut => Self::Silence("no answer came in time".to_owned()),
            _ => Self::Silence(short(&error.to_string())),
        }
    }

    /// Whether the stream is not there.
    pub(in crate::backend) fn is_no_stream(&self) -> bool {
        matches!(self, Self::No(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND)
    }

    /// Whether the stream is there, but not the message.
    pub(in crate::backend) fn is_no_message(&self) -> bool {
        matches!(self, Self::No(error) if error.error_code() == ErrorCode::NO_MESSAGE_FOUND)
    }

    /// Whether something was stored under the subject since it was read.
    pub(in crate::backend) fn is_conflict(&self) -> bool {
        matches!(self, Self::No(error) if matches!(error.error_code(), ErrorCode::STREAM_WRONG_LAST_SEQUENCE | ErrorCode::STREAM_WRONG_LAST_SEQUENCE_CONSTANT))
    }

    /// Whether it is unknown what became of the request.
    pub(in crate::backend) fn is_unknown(&self) -> bool {
        matches!(self, Self::Silence(_) | Self::Strange(_))
    }

    /// The error that callers of a store are given. Nothing of it holds a password.
    pub(in crate::backend) fn sort(&self, backend: &str) -> BackendError {
        use BackendErrorKind::{Busy, Config, Refused, Unknown};
        let (kind, message) = match self {
            Self::Unsent(why) => (Unknown, format!("the connection failed: {why}")),
            Self::Refused(why) => (Config, why.clone()),
            Self::Silence(why) => (Unknown, format!("the connection failed: {why}")),
            Self::Strange(why) => (Unknown, format!("the answer was not understood: {why}")),
            Self::Nobody => (
                Busy,
                "nobody answers for the stream: JetStream is off for this account, or its servers are choosing a leader"
                    .to_owned(),
            ),
            Self::TooLarge => (Refused, "what is to be stored is larger than the server's `max_payload`".to_owned()),
            Self::No(error) => {
                let said = short(&error.to_string());
                match error.error_code() {
                    ErrorCode::JETSTREAM_NOT_ENABLED | ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT => {
                        (Config, "JetStream is not enabled on the server, or not for this account".to_owned())
                    }
                    ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED => {
                        (Config, format!("`replicas` of more than 1 need a cluster, and this is one server: {said}"))
                    }
                    // A cluster that has just come up does not know all of its servers yet.
                    ErrorCode::CLUSTER_NO_PEERS => (
                        Busy,
                        format!("there are not as many servers as `replicas` asks for, or they have no room: {said}"),
                    ),
                    ErrorCode::STREAM_NOT_FOUND => (Busy, "the stream is gone".to_owned()),
                    // Limits of storage, and servers that are starting or have no leader.
                    _ if error.code() >= 500 => (Busy, format!("the server cannot do it now: {said}")),
                    _ => (Refused, format!("the server refused it: {said}")),
                }
            }
        };
        BackendError::new(backend, kind, message)
    }
}

fn short(text: &str) -> String {
    text.chars().take(300).map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_owned()
}
