//! Claims: whoever publishes first under a slot's subject.
//!
//! A claim has the slot as its message id, and asks that its subject be empty. Either would do for deciding who is first; together
//! they hold where one of them fails: a server may take a message twice, and it may say of one that it never stored that it is
//! a duplicate (a leader that was deposed with the id in its memory). So what a claim is answered counts for nothing, but for
//! the receipt of a message stored now: the stored message says who was first, and where there is none, the claim is published
//! once more, without an id.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::HeaderMap;
use futures_util::future::{join, join_all};
use serde_json::{Value, json};

use super::record;
use super::subject::{self, Of};
use crate::backend::jetstream::{Ack, Address, Failure, Link, Message, Setting, ensure, replicas, wrong_name};
use crate::backend::{AT_ONCE, ServerInfo};
use crate::clock::{from_ms, to_ms};
use crate::error::{BackendError, BackendErrorKind};
use crate::lease::attempt_as_run;
use crate::run::{
    AttemptRecord, Finish, FinishOutcome, ManualClaim, ManualOutcome, Record, Registered, Registration, RunKey,
    SlotClaim, SlotOutcome, Timed, Trim,
};
use crate::slot::{JobName, Slot, Token};

/// How often it is looked again who was first.
const TRIES: usize = 8;

/// How many runs of a job one trim drops at most.
const TRIMMED_AT_ONCE: usize = 500;

/// A stream, and the way there.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) link: Link,
    pub(super) stream: String,
    pub(super) prefix: String,
    pub(super) window: Duration,
    pub(super) size: u32,
    pub(super) replicas: u32,
    /// How many runs of each job are kept: the most that any instance asked for.
    kept: AtomicU64,
}

type Answers<T> = Vec<Result<Timed<T>, BackendError>>;

impl Store {
    pub(super) fn new(address: Address) -> Self {
        Self {
            link: Link::new(super::NAME, address),
            stream: "CRON".to_owned(),
            prefix: "cron.".to_owned(),
            window: Duration::from_secs(300),
            size: 1000,
            replicas: 1,
            kept: AtomicU64::new(0),
        }
    }

    pub(super) async fn connect(&self) -> Result<ServerInfo, BackendError> {
        let window = (Duration::from_millis(100) > self.window || self.window > Duration::from_secs(86_400 * 7))
            .then(|| format!("`duplicate_window` is {:?}; it must be from 100 ms to 7 days", self.window));
        let wrong = wrong_name("stream", &self.stream).or_else(|| subject::wrong_prefix(&self.prefix)).or(window);
        if let Some(wrong) = wrong {
            return Err(self.link.error(BackendErrorKind::Config, wrong));
        }
        let info = self.link.hello().await?;
        self.make_stream(self.size.into()).await?;
        Ok(info)
    }

    /// `size` is how many runs of each job are to be kept. No subject has more than one message, so the stream's own setting of
    /// that kind is where instances tell each other the most that any of them asked for.
    async fn make_stream(&self, size: u64) -> Result<(), BackendError> {
        let window = u64::try_from(self.window.as_nanos()).unwrap_or(u64::MAX);
        let settings = [
            Setting::fixed("subjects", json!([format!("{}>", self.prefix)])),
            Setting::fixed("duplicate_window", json!(window)),
            Setting::fixed("storage", json!("file")),
            Setting::fixed("retention", json!("limits")),
            Setting::fixed("discard", json!("new")),
            Setting::fixed("max_age", json!(0)),
            Setting::largest("max_msgs_per_subject", json!(size.max(self.kept.load(Ordering::Relaxed)))),
            Setting::initial("max_msgs", json!(-1)),
            Setting::initial("max_bytes", json!(-1)),
            Setting::initial("max_consumers", json!(-1)),
            Setting::initial("max_msg_size", json!(-1)),
            Setting::initial("allow_rollup_hdrs", json!(true)),
            replicas(self.replicas),
        ];
        let config = ensure(&self.link, &self.stream, &settings).await?;
        let kept = config.get("max_msgs_per_subject").and_then(Value::as_u64).unwrap_or(u64::MAX);
        self.kept.store(kept, Ordering::Relaxed);
        Ok(())
    }

    /// Does it again on a new stream, if somebody removed the old one.
    async fn on_stream<T, F>(&self, ask: impl Fn() -> F) -> Result<T, BackendError>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        match ask().await {
            Err(failure) if failure.is_no_stream() => {
                self.make_stream(self.size.into()).await?;
                ask().await.map_err(|failure| self.link.sort(&failure))
            }
            other => other.map_err(|failure| self.link.sort(&failure)),
        }
    }

    /// The broker's time, read now.
    pub(super) async fn now(&self) -> Result<i64, BackendError> {
        let stamped = format!("{}{}", self.prefix, subject::CLOCK);
        self.on_stream(|| self.link.time(&self.stream, &stamped)).await
    }

    async fn find(&self, subject: &str) -> Result<Option<Message>, BackendError> {
        self.on_stream(|| self.link.latest(&self.stream, subject)).await
    }

    /// The floor is the local start, so nothing is written; but a job may ask for more history than was kept so far.
    pub(super) async fn register(&self, jobs: &[Registration]) -> Result<Timed<Vec<Registered>>, BackendError> {
        let most = jobs.iter().map(|job| u64::from(job.retention.size)).max().unwrap_or(0);
        if most > self.kept.load(Ordering::Relaxed) {
            self.make_stream(most).await?;
        }
        let now = self.now().await?;
        Ok(Timed::at(jobs.iter().map(|_| Registered::new(now)).collect(), now))
    }

    pub(super) async fn claim_many(&self, claims: &[SlotClaim]) -> Answers<SlotOutcome> {
        let mut answers = Vec::with_capacity(claims.len());
        for claims in claims.chunks(AT_ONCE) {
            // Looked for while the time is asked, since most claims are lost.
            let subjects: Vec<String> = claims.iter().map(|claim| self.subject(claim)).collect();
            let found = join_all(subjects.iter().map(|subject| self.find(subject)));
            let (now, found) = join(self.now(), found).await;
            let claims = claims.iter().zip(found).map(|(claim, found)| self.claim(claim, found, &now));
            answers.extend(join_all(claims).await);
        }
        answers
    }

    fn subject(&self, claim: &SlotClaim) -> String {
        subject::of(&self.prefix, &RunKey::scheduled(claim.job.clone(), claim.slot), Of::Claim)
    }

    async fn claim(
        &self,
        claim: &SlotClaim,
        found: Result<Option<Message>, BackendError>,
        now: &Result<i64, BackendError>,
    ) -> Result<Timed<SlotOutcome>, BackendError> {
        let now = *now.as_ref().map_err(BackendError::to_shared)?;
        let found = found?;
        let answer = |outcome| Ok(Timed::at(outcome, now));
        if now > claim.valid_until {
            return answer(SlotOutcome::Stale);
        }
        if claim.slot.ms() > now {
            return answer(SlotOutcome::Early(from_ms(claim.slot.ms().saturating_sub(now))));
        }
        if let Some(found) = found {
            return answer(self.whose(&found, claim.token));
        }
        let age = now.saturating_sub(claim.slot.ms());
        if age > to_ms(claim.limit) || age >= to_ms(self.window) {
            return answer(SlotOutcome::Late);
        }
        let id = format!("{}:{}", claim.job, claim.slot.ms());
        let content = record::claim(claim.token, &claim.instance);
        answer(self.first(self.subject(claim), id, content, claim.token).await?)
    }

    fn whose(&self, stored: &Message, token: Token) -> SlotOutcome {
        if record::token(stored) == Some(token) { SlotOutcome::Won } else { SlotOutcome::Taken }
    }

    /// Publishes under a subject that is to be empty, and says whose message is there then.
    async fn first(
        &self,
        subject: String,
        id: String,
        content: Vec<u8>,
        token: Token,
    ) -> Result<SlotOutcome, BackendError> {
        let mut id = Some(id);
        let mut unknown = None;
        for _ in 0..TRIES {
            let mut headers = HeaderMap::new();
            if let Some(id) = &id {
                headers.insert("Nats-Msg-Id", id.as_str());
            }
            match self.link.publish(subject.clone(), headers, content.clone(), Some(0)).await {
                Ok(Ack { duplicate: false }) => return Ok(SlotOutcome::Won),
                Ok(Ack { duplicate: true }) => {}
                Err(failure) if failure.is_conflict() => {}
                Err(failure) if failure.is_unknown() && unknown.is_none() => unknown = Some(failure),
                Err(failure) => return Err(self.link.sort(&failure)),
            }
            if let Some(stored) = self.find(&subject).await? {
                return Ok(self.whose(&stored, token));
            }
            // The id is known, but its message was never stored, or is gone.
            if unknown.is_none() {
                id = None;
            }
        }
        let unknown = unknown.unwrap_or_else(|| Failure::Strange("a duplicate of nothing".to_owned()));
        Err(self.link.sort(&unknown))
    }

    pub(super) async fn claim_manual(&self, claim: &ManualClaim) -> Result<Timed<ManualOutcome>, BackendError> {
        // A time that each copy of the packet has alike.
        let slot = Slot::from_ms(claim.now);
        let subject = subject::of(&self.prefix, &RunKey::manual(claim.job.clone(), slot, claim.token), Of::Claim);
        let now = self.now().await?;
        if now > claim.valid_until {
            return Ok(Timed::at(ManualOutcome::Late, now));
        }
        let content = record::claim(claim.token, &claim.instance);
        self.first(subject, claim.token.to_string(), content, claim.token).await?;
        Ok(Timed::at(ManualOutcome::Won { slot, fence: None }, now))
    }

    pub(super) async fn finish_many(&self, finishes: &[Finish]) -> Answers<FinishOutcome> {
        let mut answers = Vec::with_capacity(finishes.len());
        for finishes in finishes.chunks(AT_ONCE) {
            answers.extend(join_all(finishes.iter().map(|finish| self.finish(finish))).await);
        }
        answers
    }

    async fn finish(&self, finish: &Finish) -> Result<Timed<FinishOutcome>, BackendError> {
        let subject = subject::of(&self.prefix, &finish.run, Of::End);
        let published = self.link.publish(subject, HeaderMap::new(), record::end(finish), Some(0)).await;
        match published {
            // The first one stands.
            Err(failure) if !failure.is_conflict() => Err(self.link.sort(&failure)),
            _ => {
                let run = attempt_as_run(finish.ending.status());
                Ok(Timed::clockless(FinishOutcome::Recorded { run, retry_in: None }))
            }
        }
    }

    /// The runs of a job that anything is kept of, newest first, and what.
    async fn runs(&self, job: &JobName) -> Result<Vec<(RunKey, Vec<Of>)>, BackendError> {
        let all = subject::all(&self.prefix, job);
        let subjects = self.on_stream(|| self.link.subjects(&self.stream, &all)).await?;
        let mut runs: HashMap<RunKey, Vec<Of>> = HashMap::new();
        for (of, run) in subjects.iter().filter_map(|subject| subject::read(&self.prefix, job, subject)) {
            runs.entry(run).or_default().push(of);
        }
        let mut runs: Vec<_> = runs.into_iter().collect();
        runs.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
        Ok(runs)
    }

    pub(super) async fn history(&self, job: &JobName, limit: u32) -> Result<Vec<Record>, BackendError> {
        let mut runs = self.runs(job).await?;
        runs.retain(|(_, kept)| kept.contains(&Of::Claim));
        runs.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        let mut records = Vec::with_capacity(runs.len());
        for runs in runs.chunks(AT_ONCE) {
            for record in join_all(runs.iter().map(|(run, _)| self.record(run))).await {
                records.extend(record?.map(Record::Attempt));
            }
        }
        Ok(crate::history::newest(records, limit))
    }

    async fn record(&self, run: &RunKey) -> Result<Option<AttemptRecord>, BackendError> {
        let (claim, end) = (subject::of(&self.prefix, run, Of::Claim), subject::of(&self.prefix, run, Of::End));
        let (claim, end) = join(self.find(&claim), self.find(&end)).await;
        let (claim, end) = (claim?, end?);
        // One that was trimmed meanwhile is not there.
        Ok(claim.and_then(|claim| record::attempt(run.clone(), &claim, end.as_ref())))
    }

    /// What is younger than the window decides slots, and is never dropped.
    pub(super) async fn trim(&self, jobs: &[Trim]) -> Result<(), BackendError> {
        let now = self.now().await?;
        for trim in jobs {
            let kept = self.kept.load(Ordering::Relaxed).max(trim.retention.size.into());
            let kept = usize::try_from(kept).unwrap_or(usize::MAX);
            let young = now.saturating_sub(to_ms(trim.keep.max(self.window)));
            let runs = self.runs(&trim.job).await?;
            let old = runs.iter().skip(kept).filter(|(run, _)| run.slot.ms() < young);
            // The oldest first, so that what is left is without gaps.
            let old: Vec<_> = old.rev().take(TRIMMED_AT_ONCE).collect();
            let subjects = old.iter().flat_map(|(run, of)| of.iter().map(|of| subject::of(&self.prefix, run, *of)));
            let purges = subjects.map(|subject| self.drop_all(subject));
            for purged in join_all(purges).await {
                purged.map_err(|failure| self.link.sort(&failure))?;
            }
        }
        Ok(())
    }

    async fn drop_all(&self, subject: String) -> Result<(), Failure> {
        self.link.ask(format!("STREAM.PURGE.{}", self.stream), &json!({ "filter": subject })).await.map(drop)
    }
}
