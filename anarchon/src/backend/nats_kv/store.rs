//! A job's state under its key: read, decided upon by the rules of [`JobState`], and stored if nobody stored another since.
//!
//! **The clock.** A call asks the stream's leader for its time while it reads the state, so what it decides by is never
//! before the call was sent, and never after the decision is made. A lease that is set from that time lasts at least as long
//! as its holder reckons from sending the call, and one that is taken for over is over by the leader's clock. The state may
//! have been written by somebody who asked a little later; the later of both times counts, so the times of a job never go
//! back, except with the leader's clock itself.
//!
//! **What is unknown.** When no answer to a write comes, the state is read and decided upon again with the same token,
//! which finds what the write did. Copies that arrive later find another number and do nothing. That an attempt is lost, or a
//! run gone, is answered only after the state was written once more: a claim of that attempt that is still on its way finds
//! another number, and a leader that was deposed unawares cannot write.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_nats::HeaderMap;
use futures_util::future::{BoxFuture, FutureExt as _, Shared, join, join_all};
use serde_json::json;

use super::key;
use crate::backend::jetstream::{Address, Failure, Link, Setting, ensure, replicas, wrong_name};
use crate::backend::state::{Fault, JobState, Stored};
use crate::backend::{AT_ONCE, ServerInfo};
use crate::clock::to_ms;
use crate::error::{BackendError, BackendErrorKind};
use crate::run::Timed;
use crate::slot::JobName;

/// How often a state is read again because others stored theirs meanwhile.
const TRIES: usize = 100;

/// How far a time in a state may be ahead of the clock that was read in the same call: a call takes no longer. What is
/// further ahead was written before the leader's clock was set back, or by another leader.
const AHEAD: i64 = 10_000;

/// When an instance had a job last is not stored more often than this, if there is nothing else to store.
const TOUCH_EVERY: Duration = Duration::from_secs(60);

/// What the servers must leave of a message for its headers.
const HEADERS: usize = 1024;

/// A bucket, and the way there.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) link: Link,
    pub(super) bucket: String,
    pub(super) replicas: u32,
    /// When jobs that nobody registers were last looked for.
    pub(super) swept: AtomicI64,
    /// The clock as a test sets it; the broker's own if negative.
    #[cfg(feature = "testing")]
    pub(super) hand: AtomicI64,
}

/// A job's state as it was found.
struct Found {
    /// The number of its message, 0 if there is none.
    number: u64,
    /// Its message; empty if there is none, or the job was forgotten.
    bytes: Vec<u8>,
    stored: Option<Stored>,
}

type Clock<'a> = Shared<BoxFuture<'a, Result<i64, Arc<BackendError>>>>;

impl Store {
    pub(super) fn new(address: Address, bucket: &str) -> Self {
        Self {
            link: Link::new(super::NAME, address),
            bucket: bucket.to_owned(),
            replicas: 1,
            swept: AtomicI64::new(0),
            #[cfg(feature = "testing")]
            hand: AtomicI64::new(-1),
        }
    }

    fn stream(&self) -> String {
        format!("KV_{}", self.bucket)
    }

    fn subject(&self, job: &JobName) -> String {
        format!("$KV.{}.{}", self.bucket, key::of(job))
    }

    /// Connects, and makes the bucket.
    pub(super) async fn connect(&self) -> Result<ServerInfo, BackendError> {
        if let Some(why) = wrong_name("bucket", &self.bucket) {
            return Err(self.link.error(BackendErrorKind::Config, why));
        }
        let info = self.link.hello().await?;
        self.make_bucket().await?;
        Ok(info)
    }

    async fn make_bucket(&self) -> Result<(), BackendError> {
        let settings = [
            Setting::fixed("subjects", json!([format!("$KV.{}.>", self.bucket)])),
            Setting::fixed("storage", json!("file")),
            Setting::fixed("retention", json!("limits")),
            Setting::fixed("max_age", json!(0)),
            Setting::fixed("discard", json!("new")),
            Setting::initial("max_msgs_per_subject", json!(1)),
            Setting::initial("max_msgs", json!(-1)),
            Setting::initial("max_bytes", json!(-1)),
            Setting::initial("max_consumers", json!(-1)),
            Setting::initial("max_msg_size", json!(-1)),
            Setting::initial("allow_rollup_hdrs", json!(true)),
            Setting::initial("deny_delete", json!(true)),
            Setting::initial("allow_direct", json!(true)),
            replicas(self.replicas),
        ];
        ensure(&self.link, &self.stream(), &settings).await.map(drop)
    }

    /// The broker's time, read now.
    pub(super) async fn now(&self) -> Result<i64, BackendError> {
        #[cfg(feature = "testing")]
        if let hand @ 0.. = self.hand.load(Ordering::Relaxed) {
            return Ok(hand);
        }
        match self.told_or_stamped().await {
            Err(failure) if failure.is_no_stream() => {
                self.make_bucket().await?;
                self.told_or_stamped().await.map_err(|failure| self.link.sort(&failure))
            }
            other => other.map_err(|failure| self.link.sort(&failure)),
        }
    }

    async fn told_or_stamped(&self) -> Result<i64, Failure> {
        self.link.time(&self.stream(), &format!("$KV.{}.{}", self.bucket, key::CLOCK)).await
    }

    fn clock(&self) -> Clock<'_> {
        async { self.now().await.map_err(Arc::new) }.boxed().shared()
    }

    fn by_hand(&self) -> bool {
        #[cfg(feature = "testing")]
        return self.hand.load(Ordering::Relaxed) >= 0;
        #[cfg(not(feature = "testing"))]
        false
    }

    async fn find(&self, job: &JobName) -> Result<Found, BackendError> {
        let (stream, subject) = (self.stream(), self.subject(job));
        let message = match self.link.latest(&stream, &subject).await {
            Ok(message) => message,
            // Somebody removed it. The floors of schedules come with the claims, so nothing of the past is run again.
            Err(failure) if failure.is_no_stream() => {
                self.make_bucket().await?;
                None
            }
            Err(failure) => return Err(self.link.sort(&failure)),
        };
        let Some(message) = message else { return Ok(Found { number: 0, bytes: Vec::new(), stored: None }) };
        let stored = match message.payload.as_slice() {
            [] => None,
            bytes => Some(Stored::read(job, bytes).map_err(|fault| self.fault(job, fault))?),
        };
        Ok(Found { number: message.sequence, bytes: message.payload, stored })
    }

    fn fault(&self, job: &JobName, fault: Fault) -> BackendError {
        let why = match fault {
            Fault::Newer(format) => {
                format!(
                    "the state of job `{job}` was written by a newer release, in format {format}; update this program"
                )
            }
            Fault::Damaged => format!(
                "what the bucket `{}` holds for job `{job}` is no state of ours; choose another bucket",
                self.bucket
            ),
        };
        self.link.error(BackendErrorKind::Config, why)
    }

    /// Steps on the states of jobs: those of one job one after the other and stored at once, those of different jobs at the
    /// same time. `sure` says which answers hold only once something was written after them.
    pub(super) async fn steps<T, R>(
        &self,
        items: &[T],
        job: impl Fn(&T) -> &JobName,
        step: impl Fn(&mut JobState, &T, i64) -> R,
        sure: impl Fn(&R) -> bool,
    ) -> Vec<Result<Timed<R>, BackendError>> {
        let mut order: Vec<&JobName> = Vec::new();
        let mut groups: HashMap<&JobName, Vec<usize>> = HashMap::new();
        for (place, item) in items.iter().enumerate() {
            let group = groups.entry(job(item)).or_default();
            if group.is_empty() {
                order.push(job(item));
            }
            group.push(place);
        }
        let mut answers: Vec<Option<Result<Timed<R>, BackendError>>> = items.iter().map(|_| None).collect();
        for jobs in order.chunks(AT_ONCE) {
            let clock = self.clock();
            let settled = join_all(jobs.iter().map(|job| {
                let places = groups.get(job).map(Vec::as_slice).unwrap_or_default();
                let step = |state: &mut JobState, now| {
                    places.iter().map(|place| step(state, &items[*place], now)).collect::<Vec<R>>()
                };
                self.settle(job, clock.clone(), step, |answers: &Vec<R>| answers.iter().any(&sure))
            }))
            .await;
            for (job, settled) in jobs.iter().zip(settled) {
                let places = groups.get(job).map(Vec::as_slice).unwrap_or_default();
                match settled {
                    Ok(of_job) => {
                        for (place, answer) in places.iter().zip(of_job.value) {
                            answers[*place] = Some(Ok(Timed { value: answer, store_ms: of_job.store_ms }));
                        }
                    }
                    Err(error) => places.iter().for_each(|place| answers[*place] = Some(Err(error.to_shared()))),
                }
            }
        }
        let none = || self.link.error(BackendErrorKind::Unknown, "the store gave no answer");
        answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(none()))).collect()
    }

    /// One step on a job's state.
    pub(super) async fn step<R>(
        &self,
        job: &JobName,
        step: impl Fn(&mut JobState, i64) -> R,
        sure: impl Fn(&R) -> bool,
    ) -> Result<Timed<R>, BackendError> {
        self.settle(job, self.clock(), step, sure).await
    }

    async fn settle<'a, R>(
        &'a self,
        job: &JobName,
        mut clock: Clock<'a>,
        step: impl Fn(&mut JobState, i64) -> R,
        sure: impl Fn(&R) -> bool,
    ) -> Result<Timed<R>, BackendError> {
        let mut unknown = None;
        for _ in 0..TRIES {
            let (found, now) = join(self.find(job), clock).await;
            clock = self.clock();
            let (found, told) = match (found, now) {
                (Ok(found), Ok(told)) => (found, told),
                (Err(error), _) => return Err(error),
                (_, Err(error)) => return Err(error.to_shared()),
            };
            let now = match &found.stored {
                Some(stored) if !self.by_hand() && stored.at.saturating_sub(told) <= AHEAD => told.max(stored.at),
                _ => told,
            };
            let before = || found.stored.as_ref().map_or_else(|| JobState::new(now), |stored| stored.state.clone());
            let mut state = before();
            let answer = step(&mut state, now);
            let bytes = if !state.is_as_good_as(&before(), TOUCH_EVERY) {
                self.fitting(&mut state, now)
            } else if sure(&answer) {
                found.bytes
            } else {
                return Ok(Timed::at(answer, now));
            };
            match self.replace(job, found.number, bytes).await {
                Ok(()) => return Ok(Timed::at(answer, now)),
                Err(failure) if failure.is_conflict() => {}
                Err(failure) if failure.is_unknown() && unknown.is_none() => unknown = Some(failure),
                Err(failure) => return Err(self.link.sort(&failure)),
            }
        }
        let why = format!("others changed the state of job `{job}` all the time");
        Err(self.link.error(BackendErrorKind::Busy, why))
    }

    /// The state as it will be kept: as much of its history as goes into a message.
    fn fitting(&self, state: &mut JobState, now: i64) -> Vec<u8> {
        let room = self.link.largest().saturating_sub(HEADERS);
        let mut bytes = state.to_stored(now);
        while bytes.len() > room && state.shed() {
            bytes = state.to_stored(now);
        }
        bytes
    }

    /// Stores this under the job's key, if `number` is still that of its latest message. Nothing at all is stored of a job
    /// that is forgotten, marked as the tools for buckets do it.
    async fn replace(&self, job: &JobName, number: u64, bytes: Vec<u8>) -> Result<(), Failure> {
        let mut headers = HeaderMap::new();
        if bytes.is_empty() {
            headers.insert("KV-Operation", "DEL");
        }
        self.link.publish(self.subject(job), headers, bytes, Some(number)).await.map(drop)
    }

    /// The state of a job, to be looked at.
    pub(super) async fn look<R>(
        &self,
        job: &JobName,
        look: impl FnOnce(&JobState) -> R,
    ) -> Result<Option<R>, BackendError> {
        Ok(self.find(job).await?.stored.map(|stored| look(&stored.state)))
    }

    /// The jobs that the bucket holds.
    pub(super) async fn jobs(&self) -> Result<Vec<JobName>, BackendError> {
        let prefix = format!("$KV.{}.{}", self.bucket, key::JOB);
        let subjects = self.link.subjects(&self.stream(), &format!("{prefix}*")).await;
        let subjects = subjects.map_err(|failure| self.link.sort(&failure))?;
        Ok(subjects.iter().filter_map(|subject| key::read(subject.strip_prefix(&prefix)?)).collect())
    }

    /// Drops the jobs that no instance has had registered for so long; not those that are registered now.
    pub(super) async fn forget(
        &self,
        after: Duration,
        now: i64,
        registered: &HashSet<&JobName>,
    ) -> Result<(), BackendError> {
        let mut others = self.jobs().await?;
        others.retain(|job| !registered.contains(job));
        for jobs in others.chunks(AT_ONCE) {
            let forgotten = join_all(jobs.iter().map(|job| self.forget_one(job, after, now))).await;
            forgotten.into_iter().collect::<Result<(), _>>()?;
        }
        Ok(())
    }

    async fn forget_one(&self, job: &JobName, after: Duration, now: i64) -> Result<(), BackendError> {
        let found = self.find(job).await?;
        if !found.stored.is_some_and(|stored| stored.state.forgotten(after, now)) {
            return Ok(());
        }
        match self.replace(job, found.number, Vec::new()).await {
            Err(failure) if !failure.is_conflict() => Err(self.link.sort(&failure)),
            // Somebody has the job after all.
            _ => Ok(()),
        }
    }

    /// Whether it is time to look for jobs that nobody has any more.
    pub(super) fn sweeps(&self, every: Duration, now: i64) -> bool {
        let due = now.abs_diff(self.swept.load(Ordering::Relaxed)) >= to_ms(every).unsigned_abs();
        if due {
            self.swept.store(now, Ordering::Relaxed);
        }
        due
    }
}
