//! The contract's methods: requests into statements, one call of the client, rows into answers.

use std::time::Duration;

use super::client::{Row, SqlClient, SqlError};
use super::dialect::{SqlDialect, Verb};
use super::stage::{claim_values, manual_values, millis};
use super::{Sql, SqlBackend, answer, history, new_mark, rounds};
use crate::backend::{Backend, HistoryByAge, LeaseBackend, Leases, ServerInfo};
use crate::error::{BackendError, BackendErrorKind};
use crate::run::{
    ActiveRun, Beat, BeatOutcome, ClaimOutcome, Finish, FinishOutcome, ManualClaim, ManualOutcome, Pause, Record,
    Registered, Registration, Release, ReleaseOutcome, RunClaim, Timed, Trim,
};
use crate::slot::JobName;

/// How many requests one call of the client carries at most; more of them go in several.
const AT_ONCE: usize = 128;

/// How many jobs one batch trims at most, so that other writers get their turn.
const TRIM_AT_ONCE: usize = 32;

type Answers<T> = Vec<Result<Timed<T>, BackendError>>;

impl<C: SqlClient, D: SqlDialect> SqlBackend<C, D> {
    /// Claims of different jobs in one call.
    async fn claim_round(&self, claims: &[RunClaim]) -> Result<Answers<ClaimOutcome>, BackendError> {
        let sql = self.ready().await?;
        let values = || claims.iter().map(claim_values).collect();
        let rows = self.call_claim(&sql, Verb::Claim(claims), values).await?;
        let jobs = answer::by_job(&rows).map_err(|e| self.failed(e))?;
        let answer = |claim: &RunClaim| {
            let rows = jobs.get(claim.job.as_str()).map(Vec::as_slice).unwrap_or_default();
            answer::claim(claim, rows).map_err(|e| self.failed(e))
        };
        Ok(claims.iter().map(answer).collect())
    }

    async fn register_round(
        &self,
        jobs: &[Registration],
        forget_after: i64,
    ) -> Result<(Vec<Registered>, i64), BackendError> {
        let sql = self.ready().await?;
        let rows = self.call(&sql, Verb::Register(jobs, forget_after), || sql.register(jobs, forget_after)).await?;
        answer::registered(&rows, jobs).map_err(|e| self.failed(e))
    }

    async fn trim_round(&self, trims: &[Trim]) -> Result<(), BackendError> {
        let sql = self.ready().await?;
        let mark = new_mark();
        self.call(&sql, Verb::Trim(trims, mark), || sql.trim(trims, mark)).await?;
        Ok(())
    }

    /// Requests in calls of at most [`AT_ONCE`]; an error is that of all the requests of its call.
    async fn in_calls<'a, R, T, F>(&'a self, requests: &'a [R], call: impl Fn(&'a [R]) -> F + Send) -> Answers<T>
    where
        R: Sync,
        T: Send,
        F: Future<Output = Result<Vec<Timed<T>>, BackendError>> + Send,
    {
        let mut answers = Vec::with_capacity(requests.len());
        for chunk in requests.chunks(AT_ONCE) {
            match call(chunk).await {
                Ok(values) => answers.extend(values.into_iter().map(Ok)),
                Err(error) => answers.extend(chunk.iter().map(|_| Err(error.to_shared()))),
            }
        }
        answers
    }

    fn only<T>(&self, mut answers: Answers<T>) -> Result<Timed<T>, BackendError> {
        answers.pop().unwrap_or_else(|| Err(self.error(BackendErrorKind::Unknown, "the store gave no answer")))
    }

    /// One call and the reading of its rows.
    async fn ask<'a, T>(
        &'a self,
        verb: Verb<'a>,
        portable: impl FnOnce(&Sql<'_, D>) -> Vec<super::Statement> + Send,
        read: impl FnOnce(&[Row]) -> Result<T, SqlError> + Send,
    ) -> Result<T, BackendError> {
        let sql = self.ready().await?;
        let rows = self.call(&sql, verb, || portable(&sql)).await?;
        read(&rows).map_err(|e| self.failed(e))
    }
}

impl<C: SqlClient, D: SqlDialect> Backend for SqlBackend<C, D> {
    type Strength = Leases;

    fn name(&self) -> &str {
        &self.name
    }

    fn history_by_age(&self) -> bool {
        true
    }

    async fn connect(&self) -> Result<ServerInfo, BackendError> {
        let sql = self.sql()?;
        let info = self.client.server().await.map_err(|e| self.failed(e))?;
        self.prepare(&sql).await?;
        Ok(info)
    }

    async fn clock(&self) -> Result<Option<i64>, BackendError> {
        let rows = self.read(super::Statement::new(format!("SELECT {}", self.dialect.clock()), Vec::new())).await?;
        rows.first().map(|row| row.int(0)).transpose().map_err(|e| self.failed(e))
    }

    async fn register(
        &self,
        jobs: &[Registration],
        forget_after: Duration,
    ) -> Result<Timed<Vec<Registered>>, BackendError> {
        let forget_after = millis(forget_after);
        let mut answers: Vec<Registered> = vec![Registered::default(); jobs.len()];
        let mut now = None;
        for round in rounds(jobs.iter().map(|r| r.job.as_str()), AT_ONCE) {
            let chunk: Vec<Registration> = round.iter().filter_map(|i| jobs.get(*i).cloned()).collect();
            let (registered, at) = self.register_round(&chunk, forget_after).await?;
            now = Some(at);
            for (index, answer) in round.into_iter().zip(registered) {
                if let Some(slot) = answers.get_mut(index) {
                    *slot = answer;
                }
            }
        }
        Ok(Timed { value: answers, store_ms: now })
    }

    async fn claim_manual(&self, claim: &ManualClaim) -> Result<Timed<ManualOutcome>, BackendError> {
        let sql = self.ready().await?;
        let rows = self.call_claim(&sql, Verb::ClaimManual(claim), || vec![manual_values(claim)]).await?;
        answer::manual(&rows).map_err(|e| self.failed(e))
    }

    async fn finish(&self, finish: &Finish) -> Result<Timed<FinishOutcome>, BackendError> {
        self.only(self.finish_many(std::slice::from_ref(finish)).await)
    }

    async fn finish_many(&self, finishes: &[Finish]) -> Answers<FinishOutcome> {
        self.in_calls(finishes, |chunk| {
            self.ask(Verb::Finish(chunk), |sql| sql.finish(chunk), |rows| answer::finishes(rows, chunk))
        })
        .await
    }

    async fn history(&self, job: &JobName, limit: u32) -> Result<Vec<Record>, BackendError> {
        let sql = self.ready().await?;
        let rows = self.read(sql.history(job, limit)).await?;
        history::records(job, &rows, limit).map_err(|e| self.failed(e))
    }

    async fn trim(&self, jobs: &[Trim]) -> Result<(), BackendError> {
        // Statements are written for one retention; nearly always there is only one.
        let mut waiting: Vec<&Trim> = jobs.iter().collect();
        while let Some(first) = waiting.first().copied() {
            let alike = |t: &&Trim| t.retention == first.retention && t.keep == first.keep;
            let (now, later): (Vec<&Trim>, Vec<&Trim>) = waiting.into_iter().partition(alike);
            waiting = later;
            for round in rounds(now.iter().map(|t| t.job.as_str()), TRIM_AT_ONCE) {
                let chunk: Vec<Trim> = round.iter().filter_map(|i| now.get(*i).copied().cloned()).collect();
                self.trim_round(&chunk).await?;
            }
        }
        Ok(())
    }

    async fn close(&self) {
        self.client.close().await;
    }
}

impl<C: SqlClient, D: SqlDialect> LeaseBackend for SqlBackend<C, D> {
    async fn claim(&self, claim: &RunClaim) -> Result<Timed<ClaimOutcome>, BackendError> {
        self.only(self.claim_round(std::slice::from_ref(claim)).await?)
    }

    async fn claim_many(&self, claims: &[RunClaim]) -> Answers<ClaimOutcome> {
        let mut answers: Vec<Option<Result<_, _>>> = claims.iter().map(|_| None).collect();
        for round in rounds(claims.iter().map(|c| c.job.as_str()), AT_ONCE) {
            let all = round.len() == claims.len();
            let picked: Vec<RunClaim> =
                if all { Vec::new() } else { round.iter().filter_map(|i| claims.get(*i).cloned()).collect() };
            let chunk = if all { claims } else { &picked };
            let outcomes = match self.claim_round(chunk).await {
                Ok(outcomes) => outcomes,
                Err(error) => chunk.iter().map(|_| Err(error.to_shared())).collect(),
            };
            for (index, outcome) in round.into_iter().zip(outcomes) {
                if let Some(answer) = answers.get_mut(index) {
                    *answer = Some(outcome);
                }
            }
        }
        let none = || Err(self.error(BackendErrorKind::Unknown, "the store gave no answer"));
        answers.into_iter().map(|answer| answer.unwrap_or_else(none)).collect()
    }

    async fn heartbeat(&self, beat: &Beat) -> Result<Timed<BeatOutcome>, BackendError> {
        self.only(self.heartbeat_many(std::slice::from_ref(beat)).await)
    }

    async fn heartbeat_many(&self, beats: &[Beat]) -> Answers<BeatOutcome> {
        self.in_calls(beats, |chunk| {
            let mark = new_mark();
            self.ask(
                Verb::Heartbeat(chunk, mark),
                move |sql| sql.heartbeat(chunk, mark),
                |rows| answer::beats(rows, chunk.len()),
            )
        })
        .await
    }

    async fn release(&self, release: &Release) -> Result<Timed<ReleaseOutcome>, BackendError> {
        self.only(self.release_many(std::slice::from_ref(release)).await)
    }

    async fn release_many(&self, releases: &[Release]) -> Answers<ReleaseOutcome> {
        self.in_calls(releases, |chunk| {
            self.ask(Verb::Release(chunk), |sql| sql.release(chunk), |rows| answer::releases(rows, chunk))
        })
        .await
    }

    async fn active(&self, jobs: &[JobName]) -> Result<Timed<Vec<ActiveRun>>, BackendError> {
        // Nearly always there is nothing to close, and a plain read takes no lock.
        let sql = self.ready().await?;
        let rows = self.read(sql.read_active(jobs)).await?;
        let (runs, over) = answer::active(&rows).map_err(|e| self.failed(e))?;
        if !over {
            return Ok(runs);
        }
        let (runs, _) = self.ask(Verb::Active(jobs), |sql| sql.close_manual(jobs), answer::active).await?;
        Ok(runs)
    }

    async fn set_paused(&self, job: &JobName, pause: Option<&Pause>) -> Result<(), BackendError> {
        let sql = self.ready().await?;
        self.client.batch(sql.set_paused(job, pause)).await.map_err(|e| self.failed(e))?;
        Ok(())
    }

    async fn paused(&self, job: &JobName) -> Result<Option<Pause>, BackendError> {
        let sql = self.ready().await?;
        let rows = self.read(sql.paused(job)).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let read = || -> Result<Pause, SqlError> {
            let mut pause = Pause::new(row.text(0)?, row.text(2)?);
            pause.at = row.int(1)?;
            Ok(pause)
        };
        read().map(Some).map_err(|e| self.failed(e))
    }
}

impl<C: SqlClient, D: SqlDialect> HistoryByAge for SqlBackend<C, D> {}
