//! The connection, and requests over it.
//!
//! The client connects again by itself. What it was asked before it noticed that a connection had broken may still reach the
//! server, once or twice, when it has a new one: so nothing is published that is not guarded by the number of what it
//! replaces, or by an id.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_nats::client::Request;
use async_nats::connection::State;
use async_nats::jetstream::Error as ApiError;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::RawMessage;
use async_nats::{Client, ConnectOptions, Event, HeaderMap};
use chrono::DateTime;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::address::credentials;
use super::{Address, Failure};
use crate::backend::ServerInfo;
use crate::error::{BackendError, BackendErrorKind};

/// How long an answer is waited for before it is looked at what became of the request.
const PATIENCE: Duration = Duration::from_secs(3);

/// How often a silent server is pinged; after two pings without an answer the client connects to another.
const PING: Duration = Duration::from_secs(2);

/// The longest pause between two tries to connect.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// How long a call waits for a connection that broke to be made again.
const AGAIN: Duration = Duration::from_millis(300);

/// The oldest server that is known to do what is needed.
const OLDEST: (u32, u32) = (2, 9);

/// What publishes under a condition are headed with.
const EXPECTED: &str = "Nats-Expected-Last-Subject-Sequence";

/// The way to the servers.
#[derive(Debug)]
pub(in crate::backend) struct Link {
    backend: &'static str,
    address: Address,
    own: Mutex<Option<Client>>,
    /// Held while a connection is made, so that one is enough for all who wait.
    connecting: tokio::sync::Mutex<()>,
    /// How often our own connection was made or broke.
    turns: watch::Sender<Turns>,
}

/// How often a connection was made again, and broke.
#[derive(Clone, Copy, Debug, Default)]
struct Turns {
    made: u64,
    broken: u64,
}

/// A message that a stream keeps.
#[derive(Clone, Debug)]
pub(in crate::backend) struct Message {
    /// Its number in the stream.
    pub(in crate::backend) sequence: u64,
    /// Its content.
    pub(in crate::backend) payload: Vec<u8>,
    /// When it was stored, in ms of the server's clock.
    pub(in crate::backend) at: i64,
}

/// What a publish is answered.
#[derive(Clone, Copy, Debug)]
pub(in crate::backend) struct Ack {
    /// Whether there was one of this id before.
    pub(in crate::backend) duplicate: bool,
}

impl Link {
    pub(in crate::backend) fn new(backend: &'static str, address: Address) -> Self {
        let connecting = tokio::sync::Mutex::new(());
        Self { backend, address, own: Mutex::default(), connecting, turns: watch::Sender::default() }
    }

    pub(in crate::backend) fn address(&self) -> &Address {
        &self.address
    }

    /// Other settings of the connection; before anything is sent.
    pub(in crate::backend) fn with_options(self, options: ConnectOptions) -> Self {
        Self { address: self.address.with_options(options), ..self }
    }

    /// An error of this backend.
    pub(in crate::backend) fn error(&self, kind: BackendErrorKind, message: impl Into<String>) -> BackendError {
        BackendError::new(self.backend, kind, message)
    }

    /// An error of this backend.
    pub(in crate::backend) fn sort(&self, failure: &Failure) -> BackendError {
        failure.sort(self.backend)
    }

    /// The connection there is, or a new one.
    pub(in crate::backend) async fn client(&self) -> Result<Client, Failure> {
        let (servers, options) = match &self.address {
            Address::Given(client) => return Ok(client.clone()),
            Address::Wrong(why) => return Err(Failure::Refused(why.clone())),
            Address::Servers(servers, options) => (servers, options),
        };
        if let Some(client) = self.current() {
            return Ok(client);
        }
        let _connecting = self.connecting.lock().await;
        if let Some(client) = self.current() {
            return Ok(client);
        }
        let mut options = match options {
            Some(options) => ConnectOptions::clone(options),
            None => self.usual_options(),
        };
        options = match credentials(servers) {
            Some((user, Some(password))) => options.user_and_password(user, password),
            Some((token, None)) => options.token(token),
            None => options,
        };
        let client = options.connect(servers.as_slice()).await.map_err(|error| Failure::to_connect(&error))?;
        *self.own.lock().unwrap_or_else(PoisonError::into_inner) = Some(client.clone());
        Ok(client)
    }

    /// Connects, and sees what kind of server there is.
    pub(in crate::backend) async fn hello(&self) -> Result<ServerInfo, BackendError> {
        let client = self.client().await.map_err(|failure| self.sort(&failure))?;
        let version = client.server_info().version;
        let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
        let (oldest, this): ((u32, u32), _) = (OLDEST, (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)));
        if this < oldest {
            let why = format!("NATS {version} is too old: it must be {}.{} or newer", oldest.0, oldest.1);
            return Err(self.error(BackendErrorKind::Config, why));
        }
        match self.ask("INFO".to_owned(), &Value::Null).await {
            Err(Failure::Nobody) => {
                let why = "JetStream is not enabled on the server, or not for this account";
                return Err(self.error(BackendErrorKind::Config, why));
            }
            other => other.map_err(|failure| self.sort(&failure))?,
        };
        let mut info = ServerInfo::new(format!("NATS {version}"));
        if matches!(self.address, Address::Given(_)) {
            info.warnings.push(
                "the connection of the application is used itself: calls to the store wait behind its messages, and depend \
                 on the runtime that it was made on; give the servers' addresses instead"
                    .to_owned(),
            );
        }
        Ok(info)
    }

    fn usual_options(&self) -> ConnectOptions {
        let turns = self.turns.clone();
        ConnectOptions::new()
            .name("anarchon")
            .ping_interval(PING)
            .reconnect_delay_callback(|tries| {
                let factor = u32::try_from(tries).unwrap_or(u32::MAX).min(16);
                (Duration::from_millis(20) * factor).min(LONGEST_PAUSE)
            })
            .event_callback(move |event| {
                match event {
                    Event::Connected => turns.send_modify(|turns| turns.made += 1),
                    Event::Disconnected => turns.send_modify(|turns| turns.broken += 1),
                    _ => {}
                }
                std::future::ready(())
            })
    }

    /// The largest message that the servers take, in bytes.
    pub(in crate::backend) fn largest(&self) -> usize {
        match &self.address {
            Address::Given(client) => client.max_payload(),
            _ => self.current().map_or(usize::MAX, |client| client.max_payload()),
        }
    }

    fn current(&self) -> Option<Client> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Closes our own connection.
    pub(in crate::backend) async fn close(&self) {
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(client) = own {
            // It fails when it is closed already.
            drop(client.drain().await);
        }
    }

    async fn request(&self, subject: String, headers: HeaderMap, payload: Vec<u8>) -> Result<Value, Failure> {
        let client = self.client().await?;
        let mut turns = self.turns.subscribe();
        if client.connection_state() == State::Disconnected {
            // What is given to the client now it would send whenever it has a connection again.
            let made = turns.borrow().made;
            let again = tokio::time::timeout(AGAIN, turns.wait_for(|turns| turns.made > made));
            if again.await.is_err() && client.connection_state() == State::Disconnected {
                return Err(Failure::Unsent("the server is gone, and no other answers".to_owned()));
            }
        }
        let broken = turns.borrow_and_update().broken;
        let mut request = Request::new().payload(payload.into()).timeout(Some(PATIENCE));
        if !headers.is_empty() {
            request = request.headers(headers);
        }
        // An answer that was on its way when the connection broke never comes.
        let answer = tokio::select! {
            biased;
            answer = client.send_request(subject, request) => answer.map_err(|error| Failure::of(&error))?,
            _ = turns.wait_for(|turns| turns.broken > broken) => return Err(Failure::Silence("it broke".to_owned())),
        };
        let strange = |error: serde_json::Error| Failure::Strange(error.to_string());
        let mut answer: Value = serde_json::from_slice(&answer.payload).map_err(strange)?;
        match answer.get_mut("error") {
            Some(error) if !error.is_null() => {
                Err(Failure::No(serde_json::from_value::<ApiError>(error.take()).map_err(strange)?))
            }
            _ => Ok(answer),
        }
    }

    /// Asks JetStream.
    pub(in crate::backend) async fn ask(&self, verb: String, request: &Value) -> Result<Value, Failure> {
        let payload = if request.is_null() { Vec::new() } else { request.to_string().into_bytes() };
        self.request(format!("$JS.API.{verb}"), HeaderMap::new(), payload).await
    }

    /// Publishes, and waits until it is stored. `expected` is the number of the subject's latest message; 0 if there is none.
    pub(in crate::backend) async fn publish(
        &self,
        subject: String,
        mut headers: HeaderMap,
        payload: Vec<u8>,
        expected: Option<u64>,
    ) -> Result<Ack, Failure> {
        if let Some(expected) = expected {
            headers.insert(EXPECTED, expected.to_string().as_str());
        }
        let answer = self.request(subject, headers, payload).await?;
        if answer.get("seq").and_then(Value::as_u64).is_none() {
            return Err(Failure::Strange("a receipt without a number".to_owned()));
        }
        Ok(Ack { duplicate: answer.get("duplicate").and_then(Value::as_bool).unwrap_or(false) })
    }

    /// The latest message of a subject, as the stream's leader has it: a follower might not have received it yet.
    pub(in crate::backend) async fn latest(&self, stream: &str, subject: &str) -> Result<Option<Message>, Failure> {
        self.message(stream, &json!({ "last_by_subj": subject })).await
    }

    async fn message(&self, stream: &str, which: &Value) -> Result<Option<Message>, Failure> {
        match self.ask(format!("STREAM.MSG.GET.{stream}"), which).await {
            Ok(mut answer) => {
                let message = answer.get_mut("message").map(Value::take).unwrap_or_default();
                message_of(message).map(Some)
            }
            Err(failure) if failure.is_no_message() => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}

fn message_of(message: Value) -> Result<Message, Failure> {
    let at = time(message.get("time"));
    let raw: RawMessage = serde_json::from_value(message).map_err(|error| Failure::Strange(error.to_string()))?;
    let read = StreamMessage::try_from(raw).map_err(|error| Failure::Strange(error.to_string()))?;
    let at = at.ok_or_else(|| Failure::Strange("a message without a time".to_owned()))?;
    Ok(Message { sequence: read.sequence, payload: read.payload.to_vec(), at })
}

/// A time of the server's, in ms.
pub(super) fn time(value: Option<&Value>) -> Option<i64> {
    let text = value?.as_str()?;
    DateTime::parse_from_rfc3339(text).ok().map(|time| time.timestamp_millis())
}
