//! Heartbeats, ends, releases and the reading of unfinished runs. Each is guarded by the token, and what a call did is
//! read back in the same call: heartbeats by a mark of their own, the others by the attempt's status.

use std::collections::HashSet;
use std::time::Duration;

use super::Sql;
use super::answer::id_of;
use super::claim::millis;
use super::client::{Statement, Value};
use super::dialect::{Column, SqlDialect};
use super::schema::OPEN;
use crate::lease::MAX_RETRY_WAIT;
use crate::run::{Beat, Ending, Finish, Release, RunKey};
use crate::slot::{JobName, Token};

/// What names an attempt, in the order of its values.
const WIDTH: usize = 4;

fn attempt(run: &RunKey, token: Token) -> [Value; WIDTH] {
    [run.job.as_str().into(), id_of(run).into(), run.slot.ms().into(), token.to_string().into()]
}

/// Fills a list of attempts up to its padded size: NULLs match nothing.
fn padded<'a>(attempts: impl Iterator<Item = (&'a RunKey, Token)>, size: usize) -> Vec<Value> {
    let mut values: Vec<Value> = attempts.flat_map(|(run, token)| attempt(run, token)).collect();
    values.resize(size * WIDTH, Value::Null);
    values
}

impl<D: SqlDialect> Sql<'_, D> {
    /// Moves the leases that are not over, never back, and marks their rows.
    pub(super) fn heartbeat(&self, beats: &[Beat], mark: i64) -> Vec<Statement> {
        let (t, d) = (self.tables, self.dialect);
        let clock = d.clock();
        let mut leases: Vec<Duration> = beats.iter().map(|beat| beat.lease).collect();
        leases.sort_unstable();
        leases.dedup();
        let mut statements = Vec::with_capacity(leases.len() + 1);
        for lease in leases {
            let group: Vec<&Beat> = beats.iter().filter(|beat| beat.lease == lease).collect();
            let size = super::padded(group.len());
            let sql = format!(
                "UPDATE {runs} AS r SET until_ms = {later}, mark = ? \
                 WHERE (r.job, r.id, r.slot, r.token) IN {list} AND r.until_ms > {clock}",
                runs = t.runs,
                later = d.greatest("r.until_ms", &format!("{clock} + ?")),
                list = d.row_list(WIDTH, size),
            );
            let mut values = vec![millis(lease).into(), mark.into()];
            values.extend(padded(group.iter().map(|beat| (&beat.run, beat.token)), size));
            statements.push(Statement::new(sql, values));
        }
        let answer = "CASE WHEN r.token = c.token AND r.mark = ? THEN 1 ELSE 0 END";
        let requests = beats.iter().map(|beat| (&beat.run, beat.token));
        statements.push(self.read_back(requests, beats.len(), answer, vec![mark.into()]));
        statements
    }

    /// Ends attempts. Of several ends of one attempt the first counts.
    pub(super) fn finish(&self, finishes: &[Finish]) -> Vec<Statement> {
        let mut seen = HashSet::with_capacity(finishes.len());
        let firsts: Vec<&Finish> = finishes.iter().filter(|f| seen.insert((&f.run, f.token))).collect();
        let mut statements = Vec::new();
        // What ended well is one group; errors have a text of their own each.
        for last in [false, true] {
            let done: Vec<&Finish> =
                firsts.iter().filter(|f| f.ending == Ending::Done && f.last == last).copied().collect();
            if !done.is_empty() {
                statements.extend(self.end(&done));
            }
        }
        for finish in firsts.iter().filter(|f| f.ending != Ending::Done) {
            statements.extend(self.end(std::slice::from_ref(finish)));
        }
        let requests = finishes.iter().map(|f| (&f.run, f.token));
        statements.push(self.read_back(requests, finishes.len(), "r.status, r.until_ms, a.status", Vec::new()));
        statements
    }

    /// Ends attempts that ended in the same way: first in the history, while the runs still hold the tokens.
    fn end(&self, group: &[&Finish]) -> Vec<Statement> {
        let (t, d) = (self.tables, self.dialect);
        let Some(first) = group.first() else { return Vec::new() };
        let (status, clock) = (first.ending.status(), d.clock());
        let size = super::padded(group.len());
        let attempts = || padded(group.iter().map(|f| (&f.run, f.token)), size);
        let retries = match (&first.ending, first.last) {
            (Ending::Done, _) | (_, true) => "1 = 0",
            _ => "r.retry_ms IS NOT NULL AND r.failures + 1 < r.max_attempts",
        };
        let failures = if first.ending == Ending::Done { "r.failures" } else { "r.failures + 1" };
        let wait = d.least(
            &MAX_RETRY_WAIT.as_millis().to_string(),
            &format!("coalesce(r.retry_ms, 0) * (1 << {})", d.least("r.failures", "31")),
        );
        let mut values = vec![status.as_str().into(), first.ending.error().into()];
        values.push(if first.last { "stopped".into() } else { Value::Null });
        values.extend(attempts());
        let history = Statement::new(
            format!(
                "UPDATE {attempts} AS a SET status = ?, ended_at = {clock}, error = ?, note = coalesce(?, a.note) \
                 WHERE (a.job, a.id, a.slot, a.token) IN (SELECT r.job, r.id, r.slot, r.token FROM {runs} r \
                 WHERE (r.job, r.id, r.slot, r.token) IN {list})",
                attempts = t.attempts,
                runs = t.runs,
                list = d.row_list(WIDTH, size),
            ),
            values,
        );
        let mut values = vec![status.as_str().into(), status.as_str().into()];
        values.extend(attempts());
        let run = Statement::new(
            format!(
                "UPDATE {runs} AS r SET status = CASE WHEN {retries} THEN 'waiting' ELSE ? END, \
                 until_ms = {clock} + CASE WHEN {retries} THEN {wait} ELSE 0 END, \
                 last_ended = ?, failures = {failures}, token = NULL \
                 WHERE (r.job, r.id, r.slot, r.token) IN {list}",
                runs = t.runs,
                list = d.row_list(WIDTH, size),
            ),
            values,
        );
        vec![history, run]
    }

    /// Gives attempts up: the run stays `running`, with its lease ended now.
    pub(super) fn release(&self, releases: &[Release]) -> Vec<Statement> {
        let (t, d) = (self.tables, self.dialect);
        let clock = d.clock();
        let mut seen = HashSet::with_capacity(releases.len());
        let firsts: Vec<&Release> = releases.iter().filter(|r| seen.insert((&r.run, r.token))).collect();
        let mut statements = Vec::new();
        for returned in [false, true] {
            let group: Vec<&Release> = firsts.iter().filter(|r| r.returned == returned).copied().collect();
            if group.is_empty() {
                continue;
            }
            let size = super::padded(group.len());
            let attempts = || padded(group.iter().map(|r| (&r.run, r.token)), size);
            let list = d.row_list(WIDTH, size);
            let (status, number) = if returned { ("returned", "r.attempt - 1") } else { ("handed_over", "r.attempt") };
            statements.push(Statement::new(
                format!(
                    "UPDATE {attempts} AS a SET status = '{status}', ended_at = {clock}, error = NULL \
                     WHERE (a.job, a.id, a.slot, a.token) IN (SELECT r.job, r.id, r.slot, r.token FROM {runs} r \
                     WHERE (r.job, r.id, r.slot, r.token) IN {list})",
                    attempts = t.attempts,
                    runs = t.runs,
                ),
                attempts(),
            ));
            statements.push(Statement::new(
                format!(
                    "UPDATE {runs} AS r SET attempt = {number}, releases = r.releases + 1, until_ms = {clock}, \
                     last_ended = '{status}', token = NULL WHERE (r.job, r.id, r.slot, r.token) IN {list}",
                    runs = t.runs,
                ),
                attempts(),
            ));
        }
        let requests = releases.iter().map(|r| (&r.run, r.token));
        statements.push(self.read_back(requests, releases.len(), "r.status, r.until_ms, a.status", Vec::new()));
        statements
    }

    /// Reads, for each request, its number, the clock, and `what` of its run `r` and attempt `a`.
    fn read_back<'a>(
        &self,
        requests: impl Iterator<Item = (&'a RunKey, Token)>,
        count: usize,
        what: &str,
        mut values: Vec<Value>,
    ) -> Statement {
        const COLUMNS: &[(&str, Column)] = &[
            ("n", Column::Int),
            ("job", Column::Key),
            ("id", Column::Key),
            ("slot", Column::Int),
            ("token", Column::Key),
        ];
        let t = self.tables;
        let size = super::padded(count);
        for (number, (run, token)) in (0_i64..).zip(requests) {
            values.push(number.into());
            values.extend(attempt(run, token));
        }
        values.resize(values.len() + (size - count) * COLUMNS.len(), Value::Null);
        let sql = format!(
            "SELECT c.n, {clock}, {what} FROM {rows} c \
             LEFT JOIN {runs} r ON r.job = c.job AND r.id = c.id AND r.slot = c.slot \
             LEFT JOIN {attempts} a ON a.job = c.job AND a.id = c.id AND a.slot = c.slot AND a.token = c.token \
             WHERE c.n IS NOT NULL",
            clock = self.dialect.clock(),
            rows = self.dialect.rows(COLUMNS, size),
            runs = t.runs,
            attempts = t.attempts,
        );
        Statement::new(sql, values)
    }

    /// Reads the unfinished runs of these jobs; of no jobs, those of all.
    pub(super) fn read_active(&self, jobs: &[JobName]) -> Statement {
        let t = self.tables;
        let (among, values) = among("r", jobs);
        let sql = format!(
            "SELECT t.now_ms, r.job, r.slot, r.id, r.status, r.attempt, r.until_ms, a.instance_id \
             FROM (SELECT {clock} AS now_ms) t LEFT JOIN {runs} r ON r.{OPEN}{among} \
             LEFT JOIN {attempts} a ON a.job = r.job AND a.slot = r.slot AND a.id = r.id AND a.token = r.last_token",
            clock = self.dialect.clock(),
            runs = t.runs,
            attempts = t.attempts,
        );
        Statement::new(sql, values)
    }

    /// Closes the manual runs of these jobs whose lease is over, and reads what is unfinished then.
    pub(super) fn close_manual(&self, jobs: &[JobName]) -> Vec<Statement> {
        let t = self.tables;
        let clock = self.dialect.clock();
        let (among, values) = among("r", jobs);
        let over = format!("r.{OPEN} AND r.id <> '' AND r.until_ms <= {clock}{among}");
        // The history follows the runs, so that a clock that moves in between leaves none of them half closed.
        let close = format!(
            "UPDATE {runs} AS r SET status = 'dead', last_ended = CASE WHEN r.token IS NULL THEN r.last_ended \
             ELSE 'lost' END, token = NULL WHERE {over}",
            runs = t.runs,
        );
        let (among, attempts) = self::among("a", jobs);
        let end = format!(
            "UPDATE {attempts} AS a SET status = 'lost', ended_at = {clock} WHERE a.status = 'running' AND a.id <> ''{among} \
             AND EXISTS (SELECT 1 FROM {runs} r WHERE r.job = a.job AND r.id = a.id AND r.slot = a.slot AND r.token IS NULL)",
            attempts = t.attempts,
            runs = t.runs,
        );
        vec![Statement::new(close, values), Statement::new(end, attempts), self.read_active(jobs)]
    }
}

/// The condition that a row belongs to one of these jobs, if there are any.
fn among(alias: &str, jobs: &[JobName]) -> (String, Vec<Value>) {
    if jobs.is_empty() {
        return (String::new(), Vec::new());
    }
    let size = super::padded(jobs.len());
    let mut values: Vec<Value> = jobs.iter().map(|job| job.as_str().into()).collect();
    values.resize(size, Value::Null);
    (format!(" AND {}", super::claim::named(alias, size)), values)
}
