//! The contract's methods: requests into statements, one call of the client, rows into answers.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;

use super::client::{Row, SqlClient, SqlError};
use super::dialect::{SqlDialect, Verb};
use super::many::{Answers, rounds};
use super::stage::{Asked, millis};
use super::{Sql, SqlBackend, Statement, answer, history, new_mark, text};
use crate::backend::gather::Turn;
use crate::backend::{AT_ONCE, Backend, HistoryByAge, LeaseBackend, Leases, ServerInfo};
use crate::error::{BackendError, BackendErrorKind};
use crate::run::{
    ActiveRun, Beat, BeatOutcome, ClaimOutcome, Finish, FinishOutcome, KnownJob, ManualClaim, ManualOutcome, Pause,
    Record, Registered, Registration, Release, ReleaseOutcome, RunClaim, Timed, Trim,
};
use crate::slot::JobName;

/// How often in vain a claim is made again, whose answer names a run that has just ended.
const CLAIM_AGAIN: usize = 3;

/// How many jobs one batch trims at most, so that other writers get their turn.
const TRIM_AT_ONCE: usize = 32;

type Many<T> = Vec<Result<Timed<T>, BackendError>>;

/// Whether the store refused a call that was about several claims, for what may be the fault of one.
fn failed_with_others<T>(answer: &Result<T, BackendError>) -> bool {
    let kind = answer.as_ref().err().map(BackendError::kind);
    matches!(kind, Some(BackendErrorKind::Busy | BackendErrorKind::Refused))
}

impl<C: SqlClient, D: SqlDialect> SqlBackend<C, D> {
    /// Claims, in as few calls as may be.
    async fn claim_all(&self, claims: &[RunClaim]) -> Many<ClaimOutcome> {
        let mut answers = Answers::to(claims);
        for (places, round) in rounds(claims, AT_ONCE, |claim| &claim.job) {
            answers.put(places, self.claim_round(&round).await);
        }
        answers.all(&self.name)
    }

    /// Claims of callers that know nothing of each other: what one of them runs into is no answer to the others.
    async fn claim_gathered(&self, claims: &[RunClaim]) -> Many<ClaimOutcome> {
        let mut answers = self.claim_all(claims).await;
        if claims.len() > 1 {
            let again = answers.iter_mut().zip(claims).filter(|(answer, _)| failed_with_others(answer));
            join_all(again.map(async |(answer, claim)| {
                *answer = Answers::only(&self.name, self.claim_all(std::slice::from_ref(claim)).await);
            }))
            .await;
        }
        answers
    }

    /// Claims of different jobs in one call; those without an answer are made again.
    async fn claim_round(&self, claims: &[RunClaim]) -> Result<Vec<Timed<ClaimOutcome>>, BackendError> {
        let mut answers = self.claim_once(claims).await?;
        let mut in_vain = 0;
        while in_vain < CLAIM_AGAIN {
            let left = || answers.iter().zip(claims).filter(|(answer, _)| answer.is_none());
            let again: Vec<RunClaim> = left().map(|(_, claim)| claim.clone()).collect();
            if again.is_empty() {
                break;
            }
            let later = self.claim_once(&again).await?;
            in_vain += usize::from(later.iter().all(Option::is_none));
            let mut later = later.into_iter();
            for answer in answers.iter_mut().filter(|answer| answer.is_none()) {
                *answer = later.next().flatten();
            }
        }
        let all: Option<Vec<_>> = answers.into_iter().collect();
        all.ok_or_else(|| self.failed(answer::missing()))
    }

    async fn claim_once(&self, claims: &[RunClaim]) -> Result<Vec<Option<Timed<ClaimOutcome>>>, BackendError> {
        let sql = self.ready().await?;
        let rows = self.call_claim(&sql, Asked::Claims(claims)).await?;
        let answers = match text::of_one(&rows) {
            Some(rows) => answer::claims(&rows, claims, Some(answer::in_order_of_jobs(claims))),
            None => answer::claims(&rows, claims, sql.apart.then(|| (0..claims.len()).collect())),
        };
        answers.map_err(|e| self.failed(e))
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

    /// One call and the reading of its rows.
    async fn ask<'a, T>(
        &'a self,
        verb: Verb<'a>,
        portable: impl FnOnce(&Sql<'_, D>) -> Vec<Statement> + Send,
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

    async fn look(&self) -> Result<ServerInfo, BackendError> {
        let sql = self.sql()?;
        if let Some(place) = self.client.not_made() {
            return Ok(ServerInfo { empty: true, ..ServerInfo::new(place) });
        }
        let mut info = self.client.server().await.map_err(|e| self.failed(e))?;
        info.places = sql.tables.names();
        match self.client.query(sql.format()).await {
            Ok(rows) if !rows.is_empty() => {
                self.known_format(&rows)?;
                // So that no call after this one makes anything.
                self.ready.store(true, Ordering::Release);
            }
            Err(error) if matches!(error.kind(), BackendErrorKind::Unknown | BackendErrorKind::Busy) => {
                return Err(self.failed(error));
            }
            Ok(_) => info.empty = true,
            Err(error) => {
                info.empty = true;
                info.warnings.push(format!("the tables cannot be read: {error}"));
            }
        }
        Ok(info)
    }

    async fn known(&self, jobs: &[JobName]) -> Result<Option<Vec<KnownJob>>, BackendError> {
        let sql = self.ready().await?;
        let mut known = Vec::new();
        // Of no jobs at all is of all.
        let chunks = if jobs.is_empty() { vec![jobs] } else { jobs.chunks(AT_ONCE).collect() };
        for some in chunks {
            let rows = self.read(sql.known(some)).await?;
            known.extend(answer::known(&rows).map_err(|e| self.failed(e))?);
        }
        Ok(Some(known))
    }

    async fn clock(&self) -> Result<Option<i64>, BackendError> {
        let rows = self.read(Statement::new(format!("SELECT {}", self.dialect.clock()), Vec::new())).await?;
        rows.first().map(|row| row.int(0)).transpose().map_err(|e| self.failed(e))
    }

    async fn register(
        &self,
        jobs: &[Registration],
        forget_after: Duration,
    ) -> Result<Timed<Vec<Registered>>, BackendError> {
        let forget_after = millis(forget_after);
        let mut answers = Answers::to(jobs);
        let mut now = None;
        for (places, round) in rounds(jobs, AT_ONCE, |registration| &registration.job) {
            let (registered, at) = self.register_round(&round, forget_after).await?;
            now = Some(at);
            answers.put(places, Ok(registered));
        }
        let answers: Result<Vec<Registered>, BackendError> = answers.all(self.name()).into_iter().collect();
        Ok(Timed { value: answers?, store_ms: now })
    }

    async fn claim_manual(&self, claim: &ManualClaim) -> Result<Timed<ManualOutcome>, BackendError> {
        let sql = self.ready().await?;
        let rows = self.call_claim(&sql, Asked::Manual(claim)).await?;
        answer::manual(&rows).map_err(|e| self.failed(e))
    }

    async fn finish(&self, finish: &Finish) -> Result<Timed<FinishOutcome>, BackendError> {
        Answers::only(self.name(), self.finish_many(std::slice::from_ref(finish)).await)
    }

    async fn finish_many(&self, finishes: &[Finish]) -> Many<FinishOutcome> {
        let mut answers = Answers::to(finishes);
        for (places, round) in rounds(finishes, AT_ONCE, |finish| &finish.run) {
            let read = |rows: &[Row]| answer::finishes(rows, &round);
            answers.put(places, self.ask(Verb::Finish(&round), |sql| sql.finish(&round), read).await);
        }
        answers.all(self.name())
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
            let now: Vec<Trim> = now.into_iter().cloned().collect();
            for (_, round) in rounds(&now, TRIM_AT_ONCE, |trim| &trim.job) {
                self.trim_round(&round).await?;
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
        Answers::only(self.name(), self.claim_many(std::slice::from_ref(claim)).await)
    }

    async fn claim_many(&self, claims: &[RunClaim]) -> Many<ClaimOutcome> {
        let [claim] = claims else { return self.claim_all(claims).await };
        match self.gather.turn(claim).await {
            Turn::Alone(_call) => self.claim_all(claims).await,
            Turn::Together(together) => {
                let answers = self.claim_gathered(together.claims()).await;
                together.share(answers).into_iter().collect()
            }
            Turn::Answered(answer) => vec![answer],
        }
    }

    async fn heartbeat(&self, beat: &Beat) -> Result<Timed<BeatOutcome>, BackendError> {
        Answers::only(self.name(), self.heartbeat_many(std::slice::from_ref(beat)).await)
    }

    async fn heartbeat_many(&self, beats: &[Beat]) -> Many<BeatOutcome> {
        let mut answers = Answers::to(beats);
        for (places, round) in rounds(beats, AT_ONCE, |beat| &beat.run) {
            let mark = new_mark();
            let read = |rows: &[Row]| answer::beats(rows, round.len());
            answers.put(places, self.ask(Verb::Heartbeat(&round, mark), |sql| sql.heartbeat(&round, mark), read).await);
        }
        answers.all(self.name())
    }

    async fn release(&self, release: &Release) -> Result<Timed<ReleaseOutcome>, BackendError> {
        Answers::only(self.name(), self.release_many(std::slice::from_ref(release)).await)
    }

    async fn release_many(&self, releases: &[Release]) -> Many<ReleaseOutcome> {
        let mut answers = Answers::to(releases);
        for (places, round) in rounds(releases, AT_ONCE, |release| &release.run) {
            let read = |rows: &[Row]| answer::releases(rows, &round);
            answers.put(places, self.ask(Verb::Release(&round), |sql| sql.release(&round), read).await);
        }
        answers.all(self.name())
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

    async fn unfinished(&self, jobs: &[JobName]) -> Result<Timed<Vec<ActiveRun>>, BackendError> {
        let sql = self.ready().await?;
        let rows = self.read(sql.read_active(jobs)).await?;
        let (runs, _) = answer::active(&rows).map_err(|e| self.failed(e))?;
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
