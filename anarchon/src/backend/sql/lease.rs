//! Heartbeats, ends, releases and the reading of unfinished runs. Each is guarded by the token, and what a call did is
//! read back in the same call: heartbeats by a mark of their own, the others by the attempt's status.

use std::time::Duration;

use super::Sql;
use super::answer::id_of;
use super::client::{Statement, Value};
use super::dialect::{Column, SqlDialect};
use super::schema::OPEN_ATTEMPT;
use super::stage::{millis, one_of};
use crate::lease::MAX_RETRY_WAIT;
use crate::run::{Beat, Ending, Finish, Release, RunKey};
use crate::slot::{JobName, Token};

/// What names a run, and with the token an attempt, in the order of their values.
const RUN: &[(&str, Column)] = &[("job", Column::Key), ("id", Column::Key), ("slot", Column::Int)];
const ATTEMPT: &[(&str, Column)] =
    &[("job", Column::Key), ("id", Column::Key), ("slot", Column::Int), ("token", Column::Key)];

fn run(key: &RunKey) -> [Value; 3] {
    [key.job.as_str().into(), id_of(key).into(), key.slot.ms().into()]
}

/// Fills a list up to its padded size: NULLs match nothing.
fn pad(mut values: Vec<Value>, width: usize, size: usize) -> Vec<Value> {
    values.resize(size * width, Value::Null);
    values
}

fn runs<'a>(keys: impl Iterator<Item = &'a RunKey>, size: usize) -> Vec<Value> {
    pad(keys.flat_map(run).collect(), RUN.len(), size)
}

fn attempts<'a>(attempts: impl Iterator<Item = (&'a RunKey, Token)>, size: usize) -> Vec<Value> {
    let values = attempts.flat_map(|(key, token)| run(key).into_iter().chain([token.to_string().into()]));
    pad(values.collect(), ATTEMPT.len(), size)
}

/// What is read of attempts that should have ended.
const ENDED: &[&str] = &["r.status", "r.until_ms", "a.status"];

impl<D: SqlDialect> Sql<'_, D> {
    /// Moves the leases that are not over, never back, and marks their rows.
    pub(super) fn heartbeat(&self, beats: &[Beat], mark: i64) -> Vec<Statement> {
        let d = self.dialect;
        let clock = d.clock();
        let mut leases: Vec<Duration> = beats.iter().map(|beat| beat.lease).collect();
        leases.sort_unstable();
        leases.dedup();
        let mut statements = Vec::with_capacity(leases.len() + 1);
        for lease in leases {
            let group: Vec<&Beat> = beats.iter().filter(|beat| beat.lease == lease).collect();
            let size = super::padded(group.len());
            let later = d.greatest("r.until_ms", &format!("{clock} + ?"));
            let set = Statement::new(format!("until_ms = {later}, mark = ?"), vec![millis(lease).into(), mark.into()]);
            let also = format!("r.until_ms > {clock}");
            if self.locks_rows() {
                let keys = format!(
                    "SELECT f.slot, f.job, f.id FROM {rows} c {runs} \
                     WHERE f.slot = c.slot AND f.job = c.job AND f.id = c.id AND f.token = c.token",
                    rows = d.rows(ATTEMPT, size),
                    runs = d.look_up(&self.tables.runs, "f", false),
                );
                let keys = Statement::new(keys, attempts(group.iter().map(|beat| (&beat.run, beat.token)), size));
                statements.push(self.update_free("r", set, keys, also));
                continue;
            }
            let among = |r: &str| format!("{} AND {r}.token {}", self.matching(r, RUN, size), one_of(size));
            let mut values = runs(group.iter().map(|beat| &beat.run), size);
            let tokens = group.iter().map(|beat| beat.token.to_string().into()).collect();
            values.extend(pad(tokens, 1, size));
            statements.push(self.update_runs("r", set, among, values, also));
        }
        // A lease that is ours and not over, but was not renewed, is that of a run that somebody has locked.
        let locked = if self.locks_rows() {
            format!(" WHEN r.token = c.token AND r.until_ms > {clock} THEN 2")
        } else {
            String::new()
        };
        let answer = format!("CASE WHEN r.token = c.token AND r.mark = ? THEN 1{locked} ELSE 0 END");
        let requests = beats.iter().map(|beat| (&beat.run, beat.token));
        statements.push(self.read_back(requests, beats.len(), &[&answer], vec![mark.into()], self.apart));
        statements
    }

    /// Ends attempts, each of another run.
    pub(super) fn finish(&self, finishes: &[Finish]) -> Vec<Statement> {
        let mut statements = Vec::new();
        // What ended well is one group; errors have a text of their own each.
        for last in [false, true] {
            let done: Vec<&Finish> = finishes.iter().filter(|f| f.ending == Ending::Done && f.last == last).collect();
            if !done.is_empty() {
                statements.extend(self.end(&done));
            }
        }
        for finish in finishes.iter().filter(|f| f.ending != Ending::Done) {
            statements.extend(self.end(&[finish]));
        }
        let requests = finishes.iter().map(|f| (&f.run, f.token));
        statements.push(self.read_back(requests, finishes.len(), ENDED, Vec::new(), self.apart));
        statements
    }

    /// Ends an attempt that went well inside a transaction that somebody else began. The first statement takes the lock
    /// of the run's row, as others may work on it meanwhile, and marks it, so that the last one can tell what this call
    /// did from what an earlier one did.
    #[cfg_attr(not(feature = "_sqlx"), allow(dead_code, reason = "no store that is compiled in has a use for it"))]
    pub(super) fn finish_within(&self, finish: &Finish, mark: i64) -> Vec<Statement> {
        let (t, clock) = (self.tables, self.dialect.clock());
        let attempt = || run(&finish.run).into_iter().chain([finish.token.to_string().into()]);
        let matching = self.matching("r", ATTEMPT, 1);
        let lock = format!("UPDATE {runs} AS r SET mark = ? WHERE {matching}", runs = t.runs);
        let history = format!(
            "INSERT INTO {attempts} ({OPEN_ATTEMPT}, ended_at, status, error, note) \
             SELECT r.job, r.id, r.slot, r.token, r.attempt, r.fence, r.reason, r.instance_id, r.claimed_at, {clock}, \
             'done', NULL, NULL FROM {runs} r WHERE {matching}",
            attempts = t.attempts,
            runs = t.runs,
        );
        let done = format!(
            "UPDATE {runs} AS r SET status = 'done', open_job = NULL, until_ms = {clock}, last_ended = 'done', \
             token = NULL WHERE {matching}",
            runs = t.runs,
        );
        let what = &["CASE WHEN r.mark = ? THEN 1 ELSE 0 END", "a.status"];
        vec![
            Statement::new(lock, [mark.into()].into_iter().chain(attempt()).collect()),
            Statement::new(history, attempt().collect()),
            Statement::new(done, attempt().collect()),
            self.read_back(std::iter::once((&finish.run, finish.token)), 1, what, vec![mark.into()], false),
        ]
    }

    /// Which rows of a table are among `size` requests.
    fn matching(&self, alias: &str, columns: &[(&str, Column)], size: usize) -> String {
        if size == 1 {
            let equal: Vec<String> = columns.iter().map(|(name, _)| format!("{alias}.{name} = ?")).collect();
            return equal.join(" AND ");
        }
        let names: Vec<String> = columns.iter().map(|(name, _)| format!("{alias}.{name}")).collect();
        let kinds: Vec<Column> = columns.iter().map(|(_, kind)| *kind).collect();
        format!("({}) IN {}", names.join(", "), self.dialect.row_list(&kinds, size))
    }

    /// Among `size` requests, the runs whose open attempt has just been ended in the history.
    fn just_ended(&self, size: usize) -> String {
        format!(
            "{matching} AND EXISTS (SELECT 1 FROM {attempts} a WHERE a.job = r.job AND a.id = r.id AND a.slot = r.slot \
             AND a.token = r.token)",
            matching = self.matching("r", RUN, size),
            attempts = self.tables.attempts,
        )
    }

    /// Writes the attempts of `size` requests into the history, if they are open; `ending` is the text of its status,
    /// error and note.
    fn record_ended(&self, ending: &str, size: usize) -> String {
        let t = self.tables;
        format!(
            "INSERT INTO {attempts} ({OPEN_ATTEMPT}, ended_at, status, error, note) \
             SELECT r.job, r.id, r.slot, r.token, r.attempt, r.fence, r.reason, r.instance_id, r.claimed_at, {clock}, \
             {ending} FROM {rows} c {runs} \
             WHERE r.job = c.job AND r.id = c.id AND r.slot = c.slot AND r.token = c.token{lock}",
            lock = self.lock("r"),
            attempts = t.attempts,
            runs = self.dialect.look_up(&t.runs, "r", false),
            clock = self.dialect.clock(),
            rows = self.dialect.rows(ATTEMPT, size),
        )
    }

    /// Ends attempts that ended in the same way, first in the history, while their runs hold them.
    fn end(&self, group: &[&Finish]) -> Vec<Statement> {
        let d = self.dialect;
        let Some(first) = group.first() else { return Vec::new() };
        let (status, clock) = (first.ending.status(), d.clock());
        let size = super::padded(group.len());
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
        values.extend(attempts(group.iter().map(|f| (&f.run, f.token)), size));
        let history = Statement::new(self.record_ended("?, ?, ?", size), values);
        let mut values = vec![status.as_str().into(), status.as_str().into()];
        values.extend(runs(group.iter().map(|f| &f.run), size));
        let ended = Statement::new(
            format!(
                "UPDATE {runs} AS r SET status = CASE WHEN {retries} THEN 'waiting' ELSE ? END, \
                 open_job = CASE WHEN {retries} THEN r.job END, \
                 until_ms = {clock} + CASE WHEN {retries} THEN {wait} ELSE 0 END, \
                 last_ended = ?, failures = {failures}, token = NULL WHERE {ended}",
                runs = self.tables.runs,
                ended = self.just_ended(size),
            ),
            values,
        );
        vec![history, ended]
    }

    /// Gives attempts up, each of another run: the run stays `running`, with its lease ended now.
    pub(super) fn release(&self, releases: &[Release]) -> Vec<Statement> {
        let t = self.tables;
        let clock = self.dialect.clock();
        let mut statements = Vec::new();
        for returned in [false, true] {
            let group: Vec<&Release> = releases.iter().filter(|r| r.returned == returned).collect();
            if group.is_empty() {
                continue;
            }
            let size = super::padded(group.len());
            let (status, number) = if returned { ("returned", "r.attempt - 1") } else { ("handed_over", "r.attempt") };
            statements.push(Statement::new(
                self.record_ended(&format!("'{status}', NULL, NULL"), size),
                attempts(group.iter().map(|r| (&r.run, r.token)), size),
            ));
            statements.push(Statement::new(
                format!(
                    "UPDATE {runs} AS r SET attempt = {number}, releases = r.releases + 1, until_ms = {clock}, \
                     last_ended = '{status}', token = NULL WHERE {ended}",
                    runs = t.runs,
                    ended = self.just_ended(size),
                ),
                runs(group.iter().map(|r| &r.run), size),
            ));
        }
        let requests = releases.iter().map(|r| (&r.run, r.token));
        statements.push(self.read_back(requests, releases.len(), ENDED, Vec::new(), self.apart));
        statements
    }

    /// Reads, for each request, its number, the clock, and `what` of its run `r` and attempt `a`; as
    /// [one text](super::text::rows), if that is wanted.
    fn read_back<'a>(
        &self,
        requests: impl Iterator<Item = (&'a RunKey, Token)>,
        count: usize,
        what: &[&str],
        mut values: Vec<Value>,
        one_text: bool,
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
            values.extend(self::run(run).into_iter().chain([token.to_string().into()]));
        }
        values.resize(values.len() + (size - count) * COLUMNS.len(), Value::Null);
        let columns = [&["c.n", self.dialect.clock()], what].concat();
        let columns = if one_text { super::text::one_text(&columns) } else { columns.join(", ") };
        let sql = format!(
            "SELECT {columns} FROM {rows} c \
             LEFT JOIN {runs} r ON r.job = c.job AND r.id = c.id AND r.slot = c.slot \
             LEFT JOIN {attempts} a ON a.job = c.job AND a.id = c.id AND a.slot = c.slot AND a.token = c.token \
             WHERE c.n IS NOT NULL",
            rows = self.dialect.rows(COLUMNS, size),
            runs = t.runs,
            attempts = t.attempts,
        );
        Statement::new(sql, values)
    }

    /// Reads the unfinished runs of these jobs; of no jobs, those of all.
    pub(super) fn read_active(&self, jobs: &[JobName]) -> Statement {
        let t = self.tables;
        let (among, values) = among(jobs);
        let sql = format!(
            "SELECT t.now_ms, r.job, r.slot, r.id, r.status, r.attempt, r.until_ms, r.instance_id \
             FROM (SELECT {clock} AS now_ms) t LEFT JOIN {runs} r ON r.open_job {among}",
            clock = self.dialect.clock(),
            runs = t.runs,
        );
        Statement::new(sql, values)
    }

    /// Closes the manual runs of these jobs whose lease is over, and reads what is unfinished then.
    pub(super) fn close_manual(&self, jobs: &[JobName]) -> Vec<Statement> {
        let t = self.tables;
        let clock = self.dialect.clock();
        let (among, values) = among(jobs);
        let over = |r: &str| format!("{r}.open_job {among} AND {r}.id <> '' AND {r}.until_ms <= {clock}");
        let end = format!(
            "INSERT INTO {attempts} ({OPEN_ATTEMPT}, ended_at, status) \
             SELECT r.job, r.id, r.slot, r.token, r.attempt, r.fence, r.reason, r.instance_id, r.claimed_at, {clock}, 'lost' \
             FROM {runs} r WHERE {over} AND r.token IS NOT NULL{lock}",
            attempts = t.attempts,
            runs = t.runs,
            over = over("r"),
            lock = self.lock_free("r"),
        );
        // The runs follow the history, so that a clock that moves in between leaves none of them half closed.
        let set = "status = 'dead', open_job = NULL, \
             last_ended = CASE WHEN r.token IS NULL THEN r.last_ended ELSE 'lost' END, token = NULL";
        let recorded = format!(
            "(r.token IS NULL OR EXISTS (SELECT 1 FROM {attempts} a WHERE a.job = r.job AND a.id = r.id \
             AND a.slot = r.slot AND a.token = r.token))",
            attempts = t.attempts,
        );
        let close = self.update_runs("r", Statement::new(set, Vec::new()), over, values.clone(), recorded);
        vec![Statement::new(end, values), close, self.read_active(jobs)]
    }
}

/// The condition that a job is one of these, if there are any.
pub(super) fn among(jobs: &[JobName]) -> (String, Vec<Value>) {
    if jobs.is_empty() {
        return ("IS NOT NULL".to_owned(), Vec::new());
    }
    let size = super::padded(jobs.len());
    (one_of(size), pad(jobs.iter().map(|job| job.as_str().into()).collect(), 1, size))
}
