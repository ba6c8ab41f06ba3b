//! The connection: made when it is needed, made anew when it broke or when a call on it got no answer, and the sending
//! of scripts.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::{Arg, Cmd, Pipeline, RedisResult, Value};

use super::address::{Address, Connection};
use super::error::{is_broken_connection, knows_no_such_script, needs_new_connection, sort};
use super::script::Verb;
use crate::error::{BackendError, BackendErrorKind};

/// The way to one server.
#[derive(Debug)]
pub(super) struct Link {
    backend: &'static str,
    address: Address,
    own: Mutex<Own>,
    /// Held while a connection is made, so that one is enough for all who wait.
    connecting: tokio::sync::Mutex<()>,
}

/// How many replicas a claim waits for, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Replicas {
    pub(super) count: u32,
    pub(super) timeout: Duration,
}

/// Our own connection, and which one it is.
#[derive(Default)]
struct Own {
    connection: Option<Arc<dyn Connection>>,
    number: u64,
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Own").field("number", &self.number).finish_non_exhaustive()
    }
}

/// A call that is under way. If it is dropped before its answer came, nobody knows whether the connection still leads
/// anywhere, so later calls get another one.
struct UnderWay<'a> {
    link: &'a Link,
    number: u64,
    answered: bool,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.link.discard(self.number);
        }
    }
}

impl Link {
    pub(super) fn new(backend: &'static str, address: Address) -> Self {
        Self { backend, address, own: Mutex::default(), connecting: tokio::sync::Mutex::new(()) }
    }

    pub(super) fn renamed(self, backend: &'static str) -> Self {
        Self { backend, ..self }
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    pub(super) fn backend(&self) -> &'static str {
        self.backend
    }

    /// Sends a command, and once more on a new connection if the old one turns out to be broken: every call may reach
    /// the store twice.
    pub(super) async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        match self.try_send(command).await {
            Err(error) if is_broken_connection(&error) => self.try_send(command).await,
            other => other,
        }
    }

    async fn try_send(&self, command: &Cmd) -> RedisResult<Value> {
        let (connection, mut call) = self.connection().await?;
        let answer = checked(connection.send(command).await);
        call.answered = !answer.as_ref().is_err_and(needs_new_connection);
        answer
    }

    /// Sends commands that must go over one connection; an answer that is an error is among the answers.
    async fn send_all(&self, commands: &Pipeline) -> RedisResult<Vec<Value>> {
        match self.try_send_all(commands).await {
            Err(error) if is_broken_connection(&error) => self.try_send_all(commands).await,
            other => other,
        }
    }

    async fn try_send_all(&self, commands: &Pipeline) -> RedisResult<Vec<Value>> {
        let (connection, mut call) = self.connection().await?;
        let answers = connection.send_all(commands).await;
        call.answered = !answers.as_ref().is_err_and(needs_new_connection);
        answers
    }

    /// The connection there is, or a new one, and the call that will go over it.
    async fn connection(&self) -> RedisResult<(Arc<dyn Connection>, UnderWay<'_>)> {
        let call = |number| UnderWay { link: self, number, answered: false };
        if let Address::Given(connection) = &self.address {
            return Ok((Arc::clone(connection), call(0)));
        }
        if let Some((connection, number)) = self.current() {
            return Ok((connection, call(number)));
        }
        let _connecting = self.connecting.lock().await;
        if let Some((connection, number)) = self.current() {
            return Ok((connection, call(number)));
        }
        // That there is no address is told by `connect` before anything is sent.
        let none = (redis::ErrorKind::InvalidClientConfig, "there is no address");
        let connection = self.address.connect().await?.ok_or(none)?;
        let mut own = self.own();
        own.number += 1;
        own.connection = Some(Arc::clone(&connection));
        Ok((connection, call(own.number)))
    }

    fn own(&self) -> std::sync::MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self) -> Option<(Arc<dyn Connection>, u64)> {
        let own = self.own();
        own.connection.clone().map(|connection| (connection, own.number))
    }

    fn discard(&self, number: u64) {
        let mut own = self.own();
        if own.number == number {
            own.connection = None;
        }
    }

    /// Closes our own connection once the calls on it have ended.
    pub(super) fn close(&self) {
        self.own().connection = None;
    }

    /// Runs a script, and says how many replicas had received what it wrote when that many had, or the time was over.
    pub(super) async fn run_and_wait(
        &self,
        verb: &Verb,
        command: &Cmd,
        replicas: Replicas,
    ) -> Result<(Value, i64), BackendError> {
        let both = |command: Cmd| {
            let mut commands = redis::pipe();
            commands.add_command(command);
            commands.cmd("WAIT").arg(replicas.count).arg(replicas.timeout.as_millis().max(1).to_string());
            commands
        };
        let mut answers = self.send_all(&both(command.clone())).await.and_then(two);
        if answers.as_ref().is_err_and(knows_no_such_script) {
            answers = self.send_all(&both(by_text(verb, command))).await.and_then(two);
        }
        answers.map_err(|error| sort(self.backend, &error))
    }

    /// Runs a script by its hash, as the command says it, or by its text if the server does not know it.
    pub(super) async fn run(&self, verb: &Verb, command: &Cmd) -> Result<Value, BackendError> {
        let mut answer = self.send(command).await;
        if answer.as_ref().is_err_and(knows_no_such_script) {
            answer = self.send(&by_text(verb, command)).await;
        }
        answer.map_err(|error| sort(self.backend, &error))
    }

    /// An error of this backend.
    pub(super) fn error(&self, kind: BackendErrorKind, message: impl Into<String>) -> BackendError {
        BackendError::new(self.backend, kind, message)
    }
}

/// The start of a command that runs a script by its hash.
pub(super) fn by_hash(verb: &Verb, arguments: usize, bytes: usize) -> Cmd {
    let mut command = Cmd::with_capacity(2 + arguments, 64 + bytes);
    command.arg("EVALSHA").arg(&verb.hash);
    command
}

/// The same command with the script's text.
fn by_text(verb: &Verb, by_hash: &Cmd) -> Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(&verb.text);
    for argument in by_hash.args_iter().skip(2) {
        if let Arg::Simple(bytes) = argument {
            command.arg(bytes);
        }
    }
    command
}

/// The answers of a script and of the wait after it.
fn two(answers: Vec<Value>) -> RedisResult<(Value, i64)> {
    let mut answers = answers.into_iter();
    let mut next = || checked(Ok(answers.next().unwrap_or(Value::Nil)));
    let first = next()?;
    let received = redis::from_redis_value(next()?)?;
    Ok((first, received))
}

/// An error that came as an answer is an error.
fn checked(answer: RedisResult<Value>) -> RedisResult<Value> {
    answer.and_then(|value| match value {
        Value::ServerError(error) => Err(error.into()),
        value => Ok(value),
    })
}
