//! Claims, leases and history, each verb by one script.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Duration;

use super::calls::{Calls, Timeds, id, ms};
use super::pack::Pack;
use super::reply::{Answer, Read};
use super::script;
use crate::backend::{AT_ONCE, ServerInfo};
use crate::error::{BackendError, BackendErrorKind};
use crate::option::Overlap;
use crate::run::{
    ActiveRun, Beat, BeatOutcome, ClaimOutcome, Ending, Finish, FinishOutcome, KnownJob, ManualClaim, ManualOutcome,
    Pause, Record, Registered, Registration, Release, ReleaseOutcome, RunClaim, RunKey, Status, Timed, Trim,
};
use crate::slot::{InstanceId, JobName};

/// A store with leases on one server.
#[derive(Debug)]
pub struct LeaseStore {
    pub(super) calls: Calls,
    /// On a cluster, jobs that this instance has noted in the index.
    pub(super) indexed: Mutex<HashSet<JobName>>,
}

/// Part of a manual run's identity, too: once it has been trimmed, its token may start another.
fn slot(run: &RunKey) -> String {
    run.slot.ms().to_string()
}

/// A claim: its slot, token and schedule; and its options, unless they are those of the one before it.
fn pack_claim(pack: Pack, claim: &RunClaim, before: Option<&RunClaim>) -> Pack {
    let id = claim.slot.ms().to_string();
    let pack = pack
        // The run's own values, as they are stored.
        .text(&id)
        .text(&id)
        .token(claim.token)
        .int(claim.slot.ms())
        .joined([b"f:", claim.identity.as_bytes()])
        .int(claim.floor)
        .opt_int(claim.previous.map(|slot| slot.ms()));
    if before.is_some_and(|before| claim.has_options_of(before)) {
        return pack;
    }
    pack.text(claim.kind.as_str())
        .int(ms(claim.limit))
        .int(ms(claim.lease))
        .int(claim.valid_until)
        .flag(claim.overlap == Overlap::Skip)
        // What follows in the run, from its status on, as it is stored.
        .packed(|run| {
            run.text(Status::Running.as_str())
                .int(1)
                .int(0)
                .int(0)
                .flag(false)
                .int(i64::from(claim.max_attempts))
                .opt_int(claim.retry_failed.map(ms))
                .int(ms(claim.takeover_within))
                .flag(true)
                .text(claim.kind.first_reason().as_str())
                .text(claim.instance.as_str())
        })
}

impl LeaseStore {
    pub(super) fn new(calls: Calls) -> Self {
        Self { calls, indexed: Mutex::default() }
    }

    pub(super) async fn connect(&self) -> Result<ServerInfo, BackendError> {
        self.calls.connect(|_| None, &script::lease()).await
    }

    pub(super) async fn register(
        &self,
        jobs: &[Registration],
        forget_after: Duration,
    ) -> Result<Timed<Vec<Registered>>, BackendError> {
        let pack = |pack: Pack, r: &Registration| {
            pack.text(&*r.identity).text(&*r.fingerprint).text(r.instance.as_str()).int(ms(forget_after))
        };
        let mut registered = Vec::with_capacity(jobs.len());
        let mut now = None;
        for answer in
            self.calls.ask_many(&script::REGISTER, jobs, |r| &r.job, pack, |_, answer| answer.registered()).await
        {
            let answer = answer?;
            now = answer.store_ms;
            registered.push(answer.value);
        }
        let now = match now {
            Some(now) => Some(now),
            None => self.calls.clock().await?,
        };
        if let (true, Some(now)) = (self.calls.address().is_cluster(), now) {
            self.keep_index(jobs, forget_after, now).await?;
        }
        Ok(Timed { value: registered, store_ms: now })
    }

    pub(super) async fn claim_manual(&self, claim: &ManualClaim) -> Result<Timed<ManualOutcome>, BackendError> {
        let request = Pack::new()
            .token(claim.token)
            .text(claim.instance.as_str())
            .flag(claim.exclusive)
            .int(ms(claim.lease))
            .int(claim.valid_until);
        self.calls.ask(&script::MANUAL, &claim.job, request, |answer| answer.manual()).await
    }

    pub(super) async fn claim_many(&self, claims: &[RunClaim]) -> Timeds<ClaimOutcome> {
        if self.calls.address().is_cluster()
            && let Err(error) = self.index_claimed(claims).await
        {
            return claims.iter().map(|_| Err(error.to_shared())).collect();
        }
        let read = |claim: &RunClaim, answer: Answer| answer.claim(claim);
        let won = |outcome: &ClaimOutcome| matches!(outcome, ClaimOutcome::Won { .. });
        self.calls.ask_claims(&script::CLAIM, claims, |claim| &claim.job, pack_claim, read, won).await
    }

    pub(super) async fn heartbeat_many(&self, beats: &[Beat]) -> Timeds<BeatOutcome> {
        let pack = |pack: Pack, beat: &Beat| {
            pack.text(id(&beat.run)).text(slot(&beat.run)).token(beat.token).int(ms(beat.lease))
        };
        self.calls.ask_many(&script::HEARTBEAT, beats, |beat| &beat.run.job, pack, |_, answer| answer.beat()).await
    }

    pub(super) async fn finish_many(&self, finishes: &[Finish]) -> Timeds<FinishOutcome> {
        let pack = |pack: Pack, finish: &Finish| {
            let error = match &finish.ending {
                Ending::Done => None,
                Ending::Failed(text) | Ending::TimedOut(text) => Some(text),
            };
            pack.text(id(&finish.run))
                .text(slot(&finish.run))
                .token(finish.token)
                .text(finish.ending.status().as_str())
                .opt_text(error)
                .flag(finish.last)
        };
        self.calls
            .ask_many(&script::FINISH, finishes, |finish| &finish.run.job, pack, |_, answer| answer.finish())
            .await
    }

    pub(super) async fn release_many(&self, releases: &[Release]) -> Timeds<ReleaseOutcome> {
        let pack = |pack: Pack, release: &Release| {
            let run = &release.run;
            pack.text(id(run)).text(slot(run)).token(release.token).flag(release.returned)
        };
        self.calls
            .ask_many(&script::RELEASE, releases, |release| &release.run.job, pack, |_, answer| answer.release())
            .await
    }

    pub(super) async fn active(&self, jobs: &[JobName]) -> Result<Timed<Vec<ActiveRun>>, BackendError> {
        if self.calls.address().is_cluster() {
            return self.active_on_nodes(jobs).await;
        }
        let mut runs = Vec::new();
        // Of no jobs at all is of all.
        let chunks = if jobs.is_empty() { vec![jobs] } else { jobs.chunks(AT_ONCE).collect() };
        let mut clock = None;
        for some in chunks {
            let (now, answers) = self.calls.look(&script::ACTIVE, some).await?;
            clock = Some(now);
            for answer in answers {
                runs.push(self.active_run(&answer)?);
            }
        }
        runs.sort_by(|a, b| a.run.cmp(&b.run));
        Ok(Timed { value: runs, store_ms: clock })
    }

    /// On a cluster the index is spread over its nodes, and this is not told.
    pub(super) async fn known(&self, jobs: &[JobName]) -> Result<Option<Vec<KnownJob>>, BackendError> {
        if self.calls.address().is_cluster() {
            return Ok(None);
        }
        let mut known = Vec::new();
        // Of no jobs at all is of all.
        let chunks = if jobs.is_empty() { vec![jobs] } else { jobs.chunks(AT_ONCE).collect() };
        for some in chunks {
            let (_, answers) = self.calls.look(&script::KNOWN, some).await?;
            for answer in answers {
                let job = self.named(&answer).map_err(|unread| self.calls.unread(unread))?;
                known.push(answer.known(job).map_err(|unread| self.calls.unread(unread))?);
            }
        }
        known.sort_by(|a: &KnownJob, b| a.job.cmp(&b.job));
        Ok(Some(known))
    }

    pub(super) fn active_run(&self, answer: &Answer) -> Result<ActiveRun, BackendError> {
        self.read_active(answer).map_err(|unread| self.calls.unread(unread))
    }

    /// The job whose key an answer begins with.
    fn named(&self, answer: &Answer) -> Read<JobName> {
        let key = answer.word()?;
        let no_job = || (BackendErrorKind::Config, format!("the index names {key:?}, which is no job's key"));
        self.calls.keys.name(key).ok_or_else(no_job)
    }

    fn read_active(&self, answer: &Answer) -> Read<ActiveRun> {
        let job = self.named(answer)?;
        let attempt = u32::try_from(answer.int(4)?).unwrap_or_default();
        let instance = InstanceId::new(answer.text(5)?).ok();
        let left = crate::clock::from_ms(answer.int(6)?);
        Ok(ActiveRun::new(answer.run(&job, 1, 2)?, answer.status(3)?, attempt, instance, left))
    }

    pub(super) async fn history(&self, job: &JobName, limit: u32) -> Result<Vec<Record>, BackendError> {
        let request = Pack::new().int(i64::from(limit));
        let records = self.calls.ask(&script::HISTORY, job, request, |answer| answer.history(job)).await?.value;
        Ok(crate::history::newest(records, limit))
    }

    pub(super) async fn trim(&self, jobs: &[Trim]) -> Result<(), BackendError> {
        let pack = |pack: Pack, trim: &Trim| {
            pack.int(i64::from(trim.retention.size)).opt_int(trim.retention.ttl.map(ms)).int(ms(trim.keep))
        };
        self.calls.trim(&script::TRIM, jobs, pack).await
    }

    pub(super) async fn set_paused(&self, job: &JobName, pause: Option<&Pause>) -> Result<(), BackendError> {
        let request = Pack::new().opt_text(pause.map(|p| &p.by)).opt_text(pause.map(|p| &p.note));
        self.calls.ask(&script::PAUSE, job, request, |answer| answer.word().map(drop)).await.map(drop)
    }

    pub(super) async fn paused(&self, job: &JobName) -> Result<Option<Pause>, BackendError> {
        self.calls.ask(&script::PAUSED, job, Pack::new(), |answer| answer.pause()).await.map(|timed| timed.value)
    }
}
