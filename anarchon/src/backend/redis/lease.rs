//! Claims, leases and history, each verb by one script.

use std::time::Duration;

use redis::{Cmd, Value};

use super::address::Address;
use super::keys::Keys;
use super::link::Link;
use super::pack::Pack;
use super::reply::{Answer, Read};
use super::script::{self, Verb};
use super::server::{Server, text};
use crate::backend::ServerInfo;
use crate::clock::to_ms;
use crate::error::{BackendError, BackendErrorKind};
use crate::option::Overlap;
use crate::run::{
    ActiveRun, Beat, BeatOutcome, ClaimOutcome, Ending, Finish, FinishOutcome, ManualClaim, ManualOutcome, Pause,
    Record, Registered, Registration, Release, ReleaseOutcome, RunClaim, RunKey, Timed, Trim,
};
use crate::slot::{InstanceId, JobName, Token};

/// How many requests one script handles: a server does nothing else meanwhile.
const AT_ONCE: usize = 500;

/// How many jobs one script trims: each may drop several hundred records.
const TRIM_AT_ONCE: usize = 8;

/// Longer times are not told apart: a script's numbers hold 53 bits, and some are added up.
const LONGEST_MS: i64 = 1 << 52;

/// A store with leases on one server.
#[derive(Debug)]
pub(super) struct LeaseStore {
    link: Link,
    keys: Keys,
    clock: Clock,
}

type Timeds<T> = Vec<Result<Timed<T>, BackendError>>;

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

/// A token in a form that all locales sort alike.
fn hex(token: Token) -> String {
    token.to_string().replace('-', "")
}

fn id(run: &RunKey) -> String {
    match run.manual {
        None => run.slot.ms().to_string(),
        Some(token) => format!("m{}", hex(token)),
    }
}

/// Part of a manual run's identity, too: once it has been trimmed, its token may start another.
fn slot(run: &RunKey) -> String {
    run.slot.ms().to_string()
}

fn ms(duration: Duration) -> i64 {
    to_ms(duration).min(LONGEST_MS)
}

impl LeaseStore {
    pub(super) fn new(backend: &'static str, address: Address, prefix: &str) -> Self {
        Self { link: Link::new(backend, address), keys: Keys::new(prefix), clock: Clock::default() }
    }

    pub(super) fn with_prefix(self, prefix: String) -> Self {
        Self { keys: Keys::new(prefix), ..self }
    }

    pub(super) fn name(&self) -> &'static str {
        self.link.backend()
    }

    pub(super) fn prefix(&self) -> &str {
        self.keys.prefix()
    }

    pub(super) fn address(&self) -> &Address {
        self.link.address()
    }

    #[cfg(feature = "testing")]
    pub(super) fn set_clock(&self, now: i64) {
        *self.clock.hand.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(now);
    }

    fn unread((kind, message): (BackendErrorKind, String), link: &Link) -> BackendError {
        link.error(kind, message)
    }

    async fn send(&self, command: &Cmd) -> Result<Value, BackendError> {
        self.link.send(command).await.map_err(|error| super::error::sort(self.name(), &error))
    }

    /// Runs a script on requests, each about one job.
    async fn run(
        &self,
        verb: &Verb,
        jobs: impl Iterator<Item = &JobName>,
        requests: impl Iterator<Item = Pack>,
    ) -> Result<(i64, Vec<Answer>), BackendError> {
        let keys: Vec<String> = jobs.map(|job| self.keys.job(job)).chain([self.keys.index()]).collect();
        let clock = self.clock.hand().map(|now| now.to_string().into_bytes()).unwrap_or_default();
        let args: Vec<Vec<u8>> = std::iter::once(clock).chain(requests.map(Pack::done)).collect();
        let answer = self.link.run(verb, &keys, &args).await?;
        Answer::all(answer).map_err(|unread| Self::unread(unread, &self.link))
    }

    /// One request about one job.
    async fn ask<T>(
        &self,
        verb: &Verb,
        job: &JobName,
        request: Pack,
        read: impl FnOnce(Answer) -> Read<T>,
    ) -> Result<Timed<T>, BackendError> {
        let (now, answers) = self.run(verb, std::iter::once(job), std::iter::once(request)).await?;
        let answer = answers.into_iter().next().ok_or_else(|| self.too_few())?;
        read(answer).map(|value| Timed::at(value, now)).map_err(|unread| Self::unread(unread, &self.link))
    }

    /// Many requests in one call, or in few if they are very many.
    async fn ask_many<Q, T>(
        &self,
        verb: &Verb,
        requests: &[Q],
        job: impl Fn(&Q) -> &JobName,
        pack: impl Fn(&Q) -> Pack,
        read: impl Fn(&Q, Answer) -> Read<T>,
    ) -> Timeds<T> {
        let mut all = Vec::with_capacity(requests.len());
        for some in requests.chunks(AT_ONCE) {
            match self.run(verb, some.iter().map(&job), some.iter().map(&pack)).await {
                Ok((now, answers)) if answers.len() == some.len() => {
                    all.extend(some.iter().zip(answers).map(|(request, answer)| {
                        read(request, answer)
                            .map(|value| Timed::at(value, now))
                            .map_err(|unread| Self::unread(unread, &self.link))
                    }));
                }
                Ok(_) => all.extend(some.iter().map(|_| Err(self.too_few()))),
                Err(error) => all.extend(some.iter().map(|_| Err(error.to_shared()))),
            }
        }
        all
    }

    fn too_few(&self) -> BackendError {
        self.link.error(BackendErrorKind::Unknown, "the server gave fewer answers than it was asked for")
    }

    pub(super) async fn connect(&self) -> Result<ServerInfo, BackendError> {
        if let Address::Wrong(why) = self.address() {
            return Err(self.link.error(BackendErrorKind::Config, why.clone()));
        }
        self.keys.check().map_err(|why| self.link.error(BackendErrorKind::Config, why))?;
        let mut info = match self.send(&redis::cmd("INFO")).await {
            Ok(answer) => {
                let server = Server::from_info(&text(&answer).unwrap_or_default());
                if let Some(why) = server.refusal() {
                    return Err(self.link.error(BackendErrorKind::Config, why));
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
        for verb in script::all() {
            let _ = self.link.send(redis::cmd("SCRIPT").arg("LOAD").arg(verb.text)).await;
        }
        Ok(info)
    }

    pub(super) async fn clock(&self) -> Result<Option<i64>, BackendError> {
        if let Some(now) = self.clock.hand() {
            return Ok(Some(now));
        }
        let answer = self.send(&redis::cmd("TIME")).await?;
        let (seconds, micros): (i64, i64) = redis::from_redis_value(answer)
            .map_err(|_| self.link.error(BackendErrorKind::Config, "the server's time cannot be read"))?;
        Ok(Some(seconds.saturating_mul(1000).saturating_add(micros / 1000)))
    }

    pub(super) async fn register(
        &self,
        jobs: &[Registration],
        forget_after: Duration,
    ) -> Result<Timed<Vec<Registered>>, BackendError> {
        let pack = |r: &Registration| {
            Pack::array(4).text(&*r.identity).text(&*r.fingerprint).text(r.instance.as_str()).int(ms(forget_after))
        };
        let mut registered = Vec::with_capacity(jobs.len());
        let mut now = None;
        for answer in self.ask_many(&script::REGISTER, jobs, |r| &r.job, pack, |_, answer| answer.registered()).await {
            let answer = answer?;
            now = answer.store_ms;
            registered.push(answer.value);
        }
        let now = match now {
            Some(now) => Some(now),
            None => self.clock().await?,
        };
        Ok(Timed { value: registered, store_ms: now })
    }

    pub(super) async fn claim_manual(&self, claim: &ManualClaim) -> Result<Timed<ManualOutcome>, BackendError> {
        let request = Pack::array(5)
            .text(hex(claim.token))
            .text(claim.instance.as_str())
            .flag(claim.exclusive)
            .int(ms(claim.lease))
            .int(claim.valid_until);
        self.ask(&script::MANUAL, &claim.job, request, |answer| answer.manual()).await
    }

    pub(super) async fn claim_many(&self, claims: &[RunClaim]) -> Timeds<ClaimOutcome> {
        let pack = |claim: &RunClaim| {
            Pack::array(14)
                .text(claim.slot.ms().to_string())
                .text(claim.kind.as_str())
                .text(hex(claim.token))
                .text(claim.instance.as_str())
                .text(&*claim.identity)
                .text(claim.floor.to_string())
                .opt_text(claim.previous.map(|slot| slot.ms().to_string()))
                .int(ms(claim.limit))
                .int(ms(claim.lease))
                .flag(claim.overlap == Overlap::Skip)
                .int(i64::from(claim.max_attempts))
                .opt_int(claim.retry_failed.map(ms))
                .int(ms(claim.takeover_within))
                .int(claim.valid_until)
        };
        self.ask_many(&script::CLAIM, claims, |claim| &claim.job, pack, |claim, answer| answer.claim(&claim.job)).await
    }

    pub(super) async fn heartbeat_many(&self, beats: &[Beat]) -> Timeds<BeatOutcome> {
        let pack = |beat: &Beat| {
            Pack::array(4).text(id(&beat.run)).text(slot(&beat.run)).text(hex(beat.token)).int(ms(beat.lease))
        };
        self.ask_many(&script::HEARTBEAT, beats, |beat| &beat.run.job, pack, |_, answer| answer.beat()).await
    }

    pub(super) async fn finish_many(&self, finishes: &[Finish]) -> Timeds<FinishOutcome> {
        let pack = |finish: &Finish| {
            let error = match &finish.ending {
                Ending::Done => None,
                Ending::Failed(text) | Ending::TimedOut(text) => Some(text),
            };
            Pack::array(6)
                .text(id(&finish.run))
                .text(slot(&finish.run))
                .text(hex(finish.token))
                .text(finish.ending.status().as_str())
                .opt_text(error)
                .flag(finish.last)
        };
        self.ask_many(&script::FINISH, finishes, |finish| &finish.run.job, pack, |_, answer| answer.finish()).await
    }

    pub(super) async fn release_many(&self, releases: &[Release]) -> Timeds<ReleaseOutcome> {
        let pack = |release: &Release| {
            let (run, token) = (&release.run, release.token);
            Pack::array(4).text(id(run)).text(slot(run)).text(hex(token)).flag(release.returned)
        };
        self.ask_many(&script::RELEASE, releases, |release| &release.run.job, pack, |_, answer| answer.release()).await
    }

    pub(super) async fn active(&self, jobs: &[JobName]) -> Result<Timed<Vec<ActiveRun>>, BackendError> {
        let mut runs = Vec::new();
        // Of no jobs at all is of all.
        let chunks = if jobs.is_empty() { vec![jobs] } else { jobs.chunks(AT_ONCE).collect() };
        let mut clock = None;
        for some in chunks {
            let nothing = some.iter().map(|_| Pack::array(0));
            let (now, answers) = self.run(&script::ACTIVE, some.iter(), nothing).await?;
            clock = Some(now);
            for answer in answers {
                runs.push(self.active_run(&answer).map_err(|unread| Self::unread(unread, &self.link))?);
            }
        }
        runs.sort_by(|a, b| a.run.cmp(&b.run));
        Ok(Timed { value: runs, store_ms: clock })
    }

    fn active_run(&self, answer: &Answer) -> Read<ActiveRun> {
        let key = answer.word()?;
        let job = self
            .keys
            .name(key)
            .ok_or_else(|| (BackendErrorKind::Config, format!("the index names {key:?}, which is no job's key")))?;
        let attempt = u32::try_from(answer.int(4)?).unwrap_or_default();
        let instance = InstanceId::new(answer.text(5)?).ok();
        let left = crate::clock::from_ms(answer.int(6)?);
        Ok(ActiveRun::new(answer.run(&job, 1, 2)?, answer.status(3)?, attempt, instance, left))
    }

    pub(super) async fn history(&self, job: &JobName, limit: u32) -> Result<Vec<Record>, BackendError> {
        let request = Pack::array(1).int(i64::from(limit));
        let records = self.ask(&script::HISTORY, job, request, |answer| answer.history(job)).await?.value;
        Ok(crate::history::newest(records, limit))
    }

    pub(super) async fn trim(&self, jobs: &[Trim]) -> Result<(), BackendError> {
        let pack = |trim: &Trim| {
            Pack::array(3).int(i64::from(trim.retention.size)).opt_int(trim.retention.ttl.map(ms)).int(ms(trim.keep))
        };
        for some in jobs.chunks(TRIM_AT_ONCE) {
            for answer in
                self.ask_many(&script::TRIM, some, |t| &t.job, pack, |_, answer| answer.word().map(drop)).await
            {
                answer?;
            }
        }
        Ok(())
    }

    pub(super) async fn set_paused(&self, job: &JobName, pause: Option<&Pause>) -> Result<(), BackendError> {
        let request = Pack::array(2).opt_text(pause.map(|p| &p.by)).opt_text(pause.map(|p| &p.note));
        self.ask(&script::PAUSE, job, request, |answer| answer.word().map(drop)).await.map(drop)
    }

    pub(super) async fn paused(&self, job: &JobName) -> Result<Option<Pause>, BackendError> {
        self.ask(&script::PAUSED, job, Pack::array(0), |answer| answer.pause()).await.map(|timed| timed.value)
    }

    pub(super) fn close(&self) {
        self.link.close();
    }
}
