//! Calls of scripts: requests go in, answers come out, and each is about one job.

use std::time::Duration;

use futures_util::future::join_all;
use redis::{Cmd, Value};

use super::address::Address;
use super::keys::Keys;
use super::link::{Link, Replicas, by_hash};
use super::pack::Pack;
use super::reply::{Answer, Read, Unread};
use super::script::Verb;
use super::server::{Server, text};
use crate::backend::{AT_ONCE, ServerInfo};
use crate::clock::to_ms;
use crate::error::{BackendError, BackendErrorKind};
use crate::run::{RunKey, Timed, Trim};
use crate::slot::JobName;

/// How many jobs one script trims: each may drop several hundred records.
const TRIM_AT_ONCE: usize = 8;

/// About as many bytes as a claim and its job's key take.
const REQUEST: usize = 200;

/// Longer times are not told apart: a script's numbers hold 53 bits, and some are added up.
const LONGEST_MS: i64 = 1 << 52;

/// An answer for each request.
pub(super) type Timeds<T> = Vec<Result<Timed<T>, BackendError>>;

/// A server, and what its keys begin with.
#[derive(Debug)]
pub struct Calls {
    link: Link,
    pub(super) keys: Keys,
    /// What a claim waits for.
    pub(super) replicas: Option<Replicas>,
    clock: Clock,
}

/// The server's clock, or one that a test sets.
#[derive(Debug, Default)]
struct Clock {
    #[cfg(feature = "testing")]
    hand: std::sync::Mutex<Option<i64>>,
}

impl Clock {
    #[cfg(feature = "testing")]
    fn hand(&self) -> Option<i64> {
        *self.hand.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    #[cfg(not(feature = "testing"))]
    fn hand(&self) -> Option<i64> {
        None
    }
}

/// What scripts call a run.
pub(super) fn id(run: &RunKey) -> String {
    match run.manual {
        None => run.slot.ms().to_string(),
        Some(token) => format!("m{}", String::from_utf8_lossy(&token.hex())),
    }
}

pub(super) fn ms(duration: Duration) -> i64 {
    to_ms(duration).min(LONGEST_MS)
}

/// The one answer of a call about one thing.
pub(super) fn only<T>(name: &str, mut answers: Vec<Result<T, BackendError>>) -> Result<T, BackendError> {
    answers.pop().unwrap_or_else(|| Err(BackendError::new(name, BackendErrorKind::Unknown, "the store gave no answer")))
}

impl Calls {
    pub(super) fn new(backend: &'static str, address: Address, prefix: &str) -> Self {
        Self { link: Link::new(backend, address), keys: Keys::new(prefix), replicas: None, clock: Clock::default() }
    }

    pub(super) fn renamed(self, backend: &'static str) -> Self {
        Self { link: self.link.renamed(backend), ..self }
    }

    pub(super) fn name(&self) -> &'static str {
        self.link.backend()
    }

    pub(super) fn address(&self) -> &Address {
        self.link.address()
    }

    #[cfg(feature = "testing")]
    pub(super) fn set_clock(&self, now: i64) {
        *self.clock.hand.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(now);
    }

    /// What could not be read, as an error of this backend.
    pub(super) fn unread(&self, (kind, message): Unread) -> BackendError {
        self.link.error(kind, message)
    }

    pub(super) fn error(&self, kind: BackendErrorKind, message: impl Into<String>) -> BackendError {
        self.link.error(kind, message)
    }

    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, BackendError> {
        self.link.send(command).await.map_err(|error| super::error::sort(self.name(), &error))
    }

    async fn run(&self, verb: &Verb, command: &Cmd) -> Result<(i64, Vec<Answer>), BackendError> {
        let answer = self.link.run(verb, command).await?;
        Answer::all(answer).map_err(|unread| self.unread(unread))
    }

    /// The same, after which so many replicas should have received what it wrote; and how many had.
    async fn run_and_wait(
        &self,
        verb: &Verb,
        command: &Cmd,
        replicas: Replicas,
    ) -> Result<(i64, Vec<Answer>, i64), BackendError> {
        let (answer, received) = self.link.run_and_wait(verb, command, replicas).await?;
        let (now, answers) = Answer::all(answer).map_err(|unread| self.unread(unread))?;
        Ok((now, answers, received))
    }

    /// A script on requests, each about one job: all before their values.
    fn about<'a>(&self, verb: &Verb, jobs: impl ExactSizeIterator<Item = &'a JobName>) -> Cmd {
        // On a cluster the index is elsewhere, and scripts do without.
        let index = (!self.address().is_cluster()).then(|| self.keys.index());
        let mut command = by_hash(verb, 3 + 2 * jobs.len(), 160 + jobs.len() * REQUEST);
        command.arg(jobs.len() + usize::from(index.is_some()));
        let mut key = String::new();
        for job in jobs {
            key.clear();
            self.keys.write_job(job, &mut key);
            command.arg(&key);
        }
        command.arg(index);
        match self.clock.hand() {
            Some(now) => command.arg(now),
            None => command.arg(""),
        };
        command
    }

    /// The same with them. Each is packed with the one before it at hand, which may have said something for it, too.
    fn requests<Q>(
        &self,
        verb: &Verb,
        requests: &[Q],
        job: impl Fn(&Q) -> &JobName,
        pack: impl Fn(Pack, &Q, Option<&Q>) -> Pack,
    ) -> Cmd {
        let mut command = self.about(verb, requests.iter().map(job));
        let (mut packed, mut before) = (Pack::new(), None);
        for request in requests {
            packed = pack(packed.emptied(), request, before);
            command.arg(packed.bytes());
            before = Some(request);
        }
        command
    }

    /// Requests without values about jobs, or about all of them if none is named.
    pub(super) async fn look(&self, verb: &Verb, jobs: &[JobName]) -> Result<(i64, Vec<Answer>), BackendError> {
        self.run(verb, &self.requests(verb, jobs, |job| job, |nothing, _, _| nothing)).await
    }

    /// One request about one job.
    pub(super) async fn ask<T>(
        &self,
        verb: &Verb,
        job: &JobName,
        request: Pack,
        read: impl FnOnce(Answer) -> Read<T>,
    ) -> Result<Timed<T>, BackendError> {
        let mut command = self.about(verb, std::iter::once(job));
        command.arg(request.bytes());
        let (now, answers) = self.run(verb, &command).await?;
        let answer = answers.into_iter().next().ok_or_else(|| self.too_few())?;
        read(answer).map(|value| Timed::at(value, now)).map_err(|unread| self.unread(unread))
    }

    /// Many requests in one call, or in few if they are very many.
    pub(super) async fn ask_many<Q, T>(
        &self,
        verb: &Verb,
        requests: &[Q],
        job: impl Fn(&Q) -> &JobName,
        pack: impl Fn(Pack, &Q) -> Pack,
        read: impl Fn(&Q, Answer) -> Read<T>,
    ) -> Timeds<T> {
        self.ask_in_order(verb, requests, job, |packed, request, _| pack(packed, request), read).await
    }

    /// The same, where a request may leave out what the one before it in its call has said.
    async fn ask_in_order<Q, T>(
        &self,
        verb: &Verb,
        requests: &[Q],
        job: impl Fn(&Q) -> &JobName,
        pack: impl Fn(Pack, &Q, Option<&Q>) -> Pack,
        read: impl Fn(&Q, Answer) -> Read<T>,
    ) -> Timeds<T> {
        if self.address().is_cluster() {
            // Each job's keys are on a node of their own; all calls are under way at once.
            let one = async |request: &Q| {
                let packed = pack(Pack::new(), request, None);
                self.ask(verb, job(request), packed, |answer| read(request, answer)).await
            };
            return join_all(requests.iter().map(one)).await;
        }
        let mut all = Vec::with_capacity(requests.len());
        for some in requests.chunks(AT_ONCE) {
            match self.run(verb, &self.requests(verb, some, &job, &pack)).await {
                Ok((now, answers)) if answers.len() == some.len() => {
                    all.extend(some.iter().zip(answers).map(|(request, answer)| {
                        read(request, answer).map(|value| Timed::at(value, now)).map_err(|unread| self.unread(unread))
                    }));
                }
                Ok(_) => all.extend(some.iter().map(|_| Err(self.too_few()))),
                Err(error) => all.extend(some.iter().map(|_| Err(error.to_shared()))),
            }
        }
        all
    }

    /// Claims: like other requests, or in one call after which replicas are waited for.
    pub(super) async fn ask_claims<Q, T>(
        &self,
        verb: &Verb,
        claims: &[Q],
        job: impl Fn(&Q) -> &JobName,
        pack: impl Fn(Pack, &Q, Option<&Q>) -> Pack,
        read: impl Fn(&Q, Answer) -> Read<T>,
        won: impl Fn(&T) -> bool,
    ) -> Timeds<T> {
        let Some(replicas) = self.replicas.filter(|_| !claims.is_empty()) else {
            return self.ask_in_order(verb, claims, job, pack, read).await;
        };
        if self.address().is_cluster() {
            let one = async |claim: &Q| {
                let command = self.requests(verb, std::slice::from_ref(claim), &job, &pack);
                let (now, answers, received) = self.run_and_wait(verb, &command, replicas).await?;
                let answer = answers.into_iter().next().ok_or_else(|| self.too_few())?;
                let outcome = read(claim, answer).map_err(|unread| self.unread(unread))?;
                if received < i64::from(replicas.count) && won(&outcome) {
                    return Err(self.unreplicated(received, replicas));
                }
                Ok(Timed::at(outcome, now))
            };
            return join_all(claims.iter().map(one)).await;
        }
        match self.run_and_wait(verb, &self.requests(verb, claims, &job, &pack), replicas).await {
            Ok((now, answers, received)) if answers.len() == claims.len() => {
                let few = received < i64::from(replicas.count);
                let one = |(claim, answer)| match read(claim, answer) {
                    // A failover may undo it, so it is not told, and asked for again.
                    Ok(outcome) if few && won(&outcome) => Err(self.unreplicated(received, replicas)),
                    Ok(outcome) => Ok(Timed::at(outcome, now)),
                    Err(unread) => Err(self.unread(unread)),
                };
                claims.iter().zip(answers).map(one).collect()
            }
            Ok(_) => claims.iter().map(|_| Err(self.too_few())).collect(),
            Err(error) => claims.iter().map(|_| Err(error.to_shared())).collect(),
        }
    }

    /// Trims few jobs in one call. What goes wrong with some keeps no others from it; the first error is told.
    pub(super) async fn trim(
        &self,
        verb: &Verb,
        jobs: &[Trim],
        pack: impl Fn(Pack, &Trim) -> Pack,
    ) -> Result<(), BackendError> {
        let mut first = Ok(());
        for some in jobs.chunks(TRIM_AT_ONCE) {
            for answer in self.ask_many(verb, some, |t| &t.job, &pack, |_, answer| answer.word().map(drop)).await {
                first = first.and(answer.map(drop));
            }
        }
        first
    }

    fn unreplicated(&self, received: i64, Replicas { count, timeout }: Replicas) -> BackendError {
        let message = format!("a claim was won, but {received} of {count} replicas had received that in {timeout:?}");
        self.error(BackendErrorKind::Unknown, message)
    }

    fn too_few(&self) -> BackendError {
        self.link.error(BackendErrorKind::Unknown, "the server gave fewer answers than it was asked for")
    }

    /// Checks the server, and sends it the scripts.
    pub(super) async fn connect(
        &self,
        refusal: impl Fn(&Server) -> Option<String>,
        verbs: &[&Verb],
    ) -> Result<ServerInfo, BackendError> {
        if let Address::Wrong(why) = self.address() {
            return Err(self.error(BackendErrorKind::Config, why.clone()));
        }
        self.keys.check().map_err(|why| self.error(BackendErrorKind::Config, why))?;
        let mut info = match self.send(&redis::cmd("INFO")).await {
            Ok(answer) => {
                let server = Server::from_info(&text(&answer).unwrap_or_default());
                if let Some(why) = server.refusal(self.address().is_cluster()).or_else(|| refusal(&server)) {
                    return Err(self.error(BackendErrorKind::Config, why));
                }
                server.into_info()
            }
            Err(error) if error.message().contains("NOPERM") => {
                let mut info = ServerInfo::new("a server that does not tell its version");
                info.warnings.push("this user may not ask the server for its version and settings".to_owned());
                info
            }
            Err(error) => return Err(error),
        };
        if matches!(self.address(), Address::Given(_)) {
            info.warnings.push(
                "a connection of the application is used itself: leases wait behind its commands, and depend on the \
                 runtime it was made on; give a `redis::Client` or a URL for a connection apart"
                    .to_owned(),
            );
        }
        // So that the first call of each kind is one round trip, too. A user may be let run scripts, and not this.
        for verb in verbs {
            let _ = self.link.send(redis::cmd("SCRIPT").arg("LOAD").arg(&verb.text)).await;
        }
        Ok(info)
    }

    pub(super) async fn clock(&self) -> Result<Option<i64>, BackendError> {
        if let Some(now) = self.clock.hand() {
            return Ok(Some(now));
        }
        let answer = self.send(&redis::cmd("TIME")).await?;
        let (seconds, micros): (i64, i64) = redis::from_redis_value(answer)
            .map_err(|_| self.error(BackendErrorKind::Config, "the server's time cannot be read"))?;
        Ok(Some(seconds.saturating_mul(1000).saturating_add(micros / 1000)))
    }

    pub(super) fn close(&self) {
        self.link.close();
    }
}
