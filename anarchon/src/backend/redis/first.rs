//! The strategies without leases: they only say who was first.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use anarchon_schedule::interval;

use super::calls::{Calls, Timeds, ms};
use super::pack::Pack;
use super::script::{self, Verb};
use super::strategy::{IDMP_MARGIN, Idmp};
use crate::backend::{JobLimits, JobRefusal, ServerInfo};
use crate::error::{BackendError, BackendErrorKind};
use crate::lease::attempt_as_run;
use crate::run::{
    Finish, FinishOutcome, ManualClaim, ManualOutcome, Record, Registered, Registration, SlotClaim, SlotOutcome, Timed,
    Trim,
};
use crate::slot::JobName;

const DAY: Duration = Duration::from_secs(86_400);

/// How it is decided who was first.
#[derive(Clone, Copy, Debug)]
pub(super) enum Decide {
    /// By the ids of a stream.
    StreamId,
    /// By a field for each slot of this window.
    Window(Duration),
    /// By idempotent XADD.
    Idmp(Idmp),
}

impl Decide {
    fn claim(self) -> &'static Verb {
        match self {
            Self::StreamId => &script::STREAM_ID_CLAIM,
            Self::Window(_) => &script::WINDOW_CLAIM,
            Self::Idmp(_) => &script::IDMP_CLAIM,
        }
    }

    fn trim(self) -> &'static Verb {
        match self {
            Self::StreamId => &script::STREAM_ID_TRIM,
            Self::Window(_) => &script::WINDOW_TRIM,
            Self::Idmp(_) => &script::IDMP_TRIM,
        }
    }

    fn verbs(self) -> Vec<&'static Verb> {
        let mut verbs = script::first();
        verbs.extend(match self {
            Self::StreamId => script::stream_id(),
            Self::Window(_) => script::window(),
            Self::Idmp(_) => script::idmp(),
        });
        verbs
    }

    /// How long a decided slot is remembered.
    pub(super) fn memory(self) -> Option<Duration> {
        match self {
            Self::StreamId => None,
            Self::Window(window) => Some(window),
            Self::Idmp(idmp) => Some(idmp.duration.saturating_sub(IDMP_MARGIN)),
        }
    }
}

/// A store that only says who was first.
#[derive(Debug)]
pub struct ClaimStore {
    pub(super) calls: Calls,
    decide: Decide,
    /// What is left of a job that nobody has goes after this many ms; 0 until a registration says it.
    forget_after: AtomicI64,
}

impl ClaimStore {
    pub(super) fn new(calls: Calls, decide: Decide) -> Self {
        Self { calls, decide, forget_after: AtomicI64::new(0) }
    }

    pub(super) fn memory(&self) -> Option<Duration> {
        self.decide.memory()
    }

    pub(super) fn check_job(&self, limits: &JobLimits) -> Result<(), JobRefusal> {
        match (self.decide, limits.history_ttl) {
            (Decide::Window(window), Some(ttl)) if ttl <= window => {
                let reason = format!(
                    "is {}, and backend `{}` remembers slots for {}; make it longer than that",
                    interval::format(ttl),
                    self.calls.name(),
                    interval::format(window)
                );
                Err(JobRefusal::new("history_ttl", reason))
            }
            _ => Ok(()),
        }
    }

    pub(super) async fn connect(&self) -> Result<ServerInfo, BackendError> {
        let wrong = match self.decide {
            Decide::Idmp(idmp) => idmp.wrong(),
            Decide::Window(window) if window.is_zero() => Some("`window` of script is zero".to_owned()),
            _ => None,
        };
        if let Some(wrong) = wrong {
            return Err(self.calls.error(BackendErrorKind::Config, wrong));
        }
        let idmp = matches!(self.decide, Decide::Idmp(_));
        self.calls.connect(|server| idmp.then(|| server.lacks_idmp()).flatten(), &self.decide.verbs()).await
    }

    /// The floor is the local start, so nothing is written; but a window that differs from the stored one is found out.
    pub(super) async fn register(
        &self,
        jobs: &[Registration],
        forget_after: Duration,
    ) -> Result<Timed<Vec<Registered>>, BackendError> {
        self.forget_after.store(ms(forget_after.saturating_add(DAY)), Ordering::Relaxed);
        if let Decide::Idmp(idmp) = self.decide {
            let seconds = i64::try_from(idmp.duration.as_secs()).unwrap_or(i64::MAX);
            let pack = |pack: Pack, _: &Registration| pack.int(seconds);
            let windows = self
                .calls
                .ask_many(
                    &script::IDMP_WINDOW,
                    jobs,
                    |r| &r.job,
                    pack,
                    |_, answer| {
                        answer.word()?;
                        answer.int(1)
                    },
                )
                .await;
            for (registration, stored) in jobs.iter().zip(windows) {
                let stored = stored?.value;
                if stored != seconds {
                    return Err(self.calls.error(
                        BackendErrorKind::Config,
                        format!(
                            "job `{}` was set up with an idmp `duration` of {stored} s, and this instance has {seconds} s; \
                             a change would make the server forget which slots are decided",
                            registration.job
                        ),
                    ));
                }
            }
        }
        let now = self.calls.clock().await?;
        let floor = now.unwrap_or_default();
        Ok(Timed { value: jobs.iter().map(|_| Registered::new(floor)).collect(), store_ms: now })
    }

    pub(super) async fn claim_many(&self, claims: &[SlotClaim]) -> Timeds<SlotOutcome> {
        let memory = self.memory().map(ms);
        let seconds = match self.decide {
            Decide::Idmp(idmp) => i64::try_from(idmp.duration.as_secs()).ok(),
            _ => None,
        };
        let pack = |pack: Pack, claim: &SlotClaim, _: Option<&SlotClaim>| {
            pack.text(claim.slot.ms().to_string())
                .token(claim.token)
                .text(claim.instance.as_str())
                .int(ms(claim.limit))
                .int(claim.valid_until)
                .opt_int(memory)
                .opt_int(seconds)
        };
        let won = |outcome: &SlotOutcome| *outcome == SlotOutcome::Won;
        self.calls
            .ask_claims(self.decide.claim(), claims, |claim| &claim.job, pack, |_, answer| answer.first(), won)
            .await
    }

    pub(super) async fn claim_manual(&self, claim: &ManualClaim) -> Result<Timed<ManualOutcome>, BackendError> {
        let request = Pack::new().token(claim.token).text(claim.instance.as_str()).int(claim.valid_until);
        self.calls.ask(&script::FIRST_MANUAL, &claim.job, request, |answer| answer.first_manual()).await
    }

    pub(super) async fn finish_many(&self, finishes: &[Finish]) -> Timeds<FinishOutcome> {
        let pack = |pack: Pack, finish: &Finish| {
            pack.token(finish.token)
                .text(finish.ending.status().as_str())
                .opt_text(finish.ending.error())
                .flag(finish.last)
        };
        self.calls
            .ask_many(
                &script::FIRST_FINISH,
                finishes,
                |finish| &finish.run.job,
                pack,
                |finish, answer| {
                    answer.word()?;
                    Ok(FinishOutcome::Recorded { run: attempt_as_run(finish.ending.status()), retry_in: None })
                },
            )
            .await
    }

    pub(super) async fn history(&self, job: &JobName, limit: u32) -> Result<Vec<Record>, BackendError> {
        let request = Pack::new().int(i64::from(limit));
        let records = self.calls.ask(&script::FIRST_HISTORY, job, request, |answer| answer.first_history(job)).await?;
        Ok(crate::history::newest(records.value, limit))
    }

    pub(super) async fn trim(&self, jobs: &[Trim]) -> Result<(), BackendError> {
        let expiry = Some(self.forget_after.load(Ordering::Relaxed)).filter(|ms| *ms > 0);
        // What decides a slot is never dropped while the slot could be claimed again.
        let memory = self.memory().unwrap_or_default();
        let pack = |pack: Pack, trim: &Trim| {
            pack.int(i64::from(trim.retention.size))
                .opt_int(trim.retention.ttl.map(ms))
                .int(ms(trim.keep.max(memory)))
                .opt_int(expiry)
        };
        self.calls.trim(self.decide.trim(), jobs, pack).await
    }
}
