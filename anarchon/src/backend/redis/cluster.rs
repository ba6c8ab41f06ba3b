//! What is done otherwise on a cluster: the index of jobs is on another node than most of them, so no script keeps it.
//!
//! It is written when jobs are registered, which is when they begin and once a day after that, and before an instance's first
//! claim of a job.

use std::sync::PoisonError;
use std::time::Duration;

use super::calls::ms;
use super::lease::LeaseStore;
use super::script;
use super::server::text;
use crate::error::{BackendError, BackendErrorKind};
use crate::run::{ActiveRun, Registration, RunClaim, Timed};
use crate::slot::JobName;

/// How many forgotten jobs one registration removes.
const FORGET_AT_ONCE: usize = 100;

impl LeaseStore {
    /// Notes jobs in the index before this instance claims them for the first time: one that was never registered, or that
    /// others have forgotten, is found there, too.
    pub(super) async fn index_claimed(&self, claims: &[RunClaim]) -> Result<(), BackendError> {
        let new: Vec<JobName> = {
            let indexed = self.indexed.lock().unwrap_or_else(PoisonError::into_inner);
            claims.iter().map(|claim| &claim.job).filter(|job| !indexed.contains(*job)).cloned().collect()
        };
        if new.is_empty() {
            return Ok(());
        }
        let now = self.calls.clock().await?.unwrap_or_default();
        self.note(new.iter(), now).await?;
        self.indexed.lock().unwrap_or_else(PoisonError::into_inner).extend(new);
        Ok(())
    }

    async fn note(&self, jobs: impl Iterator<Item = &JobName>, now: i64) -> Result<(), BackendError> {
        let mut note = redis::cmd("ZADD");
        note.arg(self.calls.keys.index());
        for job in jobs {
            note.arg(now).arg(self.calls.keys.job(job));
        }
        self.calls.send(&note).await.map(drop)
    }

    /// Notes these jobs in the index, and removes those that nobody has registered for long enough.
    pub(super) async fn keep_index(
        &self,
        jobs: &[Registration],
        forget_after: Duration,
        now: i64,
    ) -> Result<(), BackendError> {
        let index = self.calls.keys.index();
        if !jobs.is_empty() {
            self.note(jobs.iter().map(|registration| &registration.job), now).await?;
        }
        let before = format!("({}", now.saturating_sub(ms(forget_after)));
        let old = redis::cmd("ZRANGEBYSCORE").arg(&index).arg("-inf").arg(before).arg("LIMIT").arg(0).arg(1000).clone();
        let old = self.names(&old).await?;
        let answers = self.calls.ask_many(
            &script::FORGET,
            &old,
            |job| job,
            |pack, _| pack.int(ms(forget_after)),
            |_, a| a.word().map(|w| w == "gone"),
        );
        let gone: Vec<String> = old
            .iter()
            .zip(answers.await)
            .filter(|(_, answer)| answer.as_ref().is_ok_and(|timed| timed.value))
            .map(|(job, _)| self.calls.keys.job(job))
            .take(FORGET_AT_ONCE)
            .collect();
        if !gone.is_empty() {
            self.calls.send(redis::cmd("ZREM").arg(&index).arg(gone)).await?;
        }
        Ok(())
    }

    /// Unfinished runs, asked for job by job.
    pub(super) async fn active_on_nodes(&self, jobs: &[JobName]) -> Result<Timed<Vec<ActiveRun>>, BackendError> {
        let all;
        let jobs = if jobs.is_empty() {
            all = self.names(redis::cmd("ZRANGE").arg(self.calls.keys.index()).arg(0).arg(-1)).await?;
            &all
        } else {
            jobs
        };
        let asked = jobs.iter().map(|job| async move {
            let (now, answers) = self.calls.look(&script::ACTIVE, std::slice::from_ref(job)).await?;
            let runs: Result<Vec<ActiveRun>, BackendError> =
                answers.iter().map(|answer| self.active_run(answer)).collect();
            Ok::<_, BackendError>((now, runs?))
        });
        let mut runs = Vec::new();
        let mut clock = None;
        for answer in futures_util::future::join_all(asked).await {
            let (now, some) = answer?;
            clock = clock.max(Some(now));
            runs.extend(some);
        }
        let clock = match clock {
            Some(now) => Some(now),
            None => self.calls.clock().await?,
        };
        runs.sort_by(|a, b| a.run.cmp(&b.run));
        Ok(Timed { value: runs, store_ms: clock })
    }

    /// The jobs whose keys a command answers.
    async fn names(&self, command: &redis::Cmd) -> Result<Vec<JobName>, BackendError> {
        let redis::Value::Array(keys) = self.calls.send(command).await? else {
            return Err(self.calls.error(BackendErrorKind::Config, "the index of jobs cannot be read"));
        };
        Ok(keys.iter().filter_map(|key| self.calls.keys.name(&text(key)?)).collect())
    }
}
