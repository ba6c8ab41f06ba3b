//! Registrations, pauses, and the removal of jobs that nobody has registered for long.

use super::Sql;
use super::client::{Statement, Value};
use super::dialect::{Among, Column, SqlDialect};
use super::locks::RUN_KEY;
use super::stage::one_of;
use crate::run::{Pause, Registration};
use crate::slot::JobName;

/// How many forgotten jobs one call removes at most.
pub(in crate::backend) const FORGET_AT_ONCE: usize = 16;

/// How often forgotten jobs are looked for at most.
pub(in crate::backend) const SWEEP_EVERY_MS: i64 = 60_000;

impl<D: SqlDialect> Sql<'_, D> {
    /// Registers jobs, each named once; removes forgotten ones; reads all that is known of the registered ones.
    pub(super) fn register(&self, registrations: &[Registration], forget_after: i64) -> Vec<Statement> {
        const COLUMNS: &[(&str, Column)] =
            &[("job", Column::Key), ("ident", Column::Key), ("fingerprint", Column::Text), ("instance", Column::Key)];
        let (t, d) = (self.tables, self.dialect);
        let size = super::padded(registrations.len());
        // Rows are locked in one order, so that two of these calls never wait for each other in a circle.
        let mut sorted: Vec<&Registration> = registrations.iter().collect();
        sorted.sort_unstable_by(|a, b| a.job.as_str().cmp(b.job.as_str()));
        let mut names: Vec<Value> = sorted.iter().map(|r| r.job.as_str().into()).collect();
        names.resize(size, Value::Null);
        let mut rows: Vec<Value> = Vec::with_capacity(size * COLUMNS.len());
        for r in &sorted {
            rows.extend([
                r.job.as_str().into(),
                super::ident(&r.identity).into(),
                (&*r.fingerprint).into(),
                r.instance.as_str().into(),
            ]);
        }
        rows.resize(size * COLUMNS.len(), Value::Null);
        let lock = format!(
            "INSERT INTO {jobs} (job, ident, touched) SELECT c.job, '', t.now_ms FROM {rows} c \
             CROSS JOIN (SELECT {clock} AS now_ms) t WHERE c.job IS NOT NULL {conflict} touched = {touched}",
            jobs = t.jobs,
            rows = d.rows(&[("job", Column::Key)], size),
            clock = d.clock(),
            conflict = d.on_conflict_update("job, ident"),
            touched = d.incoming("touched"),
        );
        // The floor is only ever inserted; what is replaced is kept beside it, to be read back.
        let schedules = format!(
            "INSERT INTO {jobs} (job, ident, touched, floor, fingerprint, instance_id) \
             SELECT c.job, c.ident, l.touched, l.touched, c.fingerprint, c.instance FROM {rows} c \
             JOIN {jobs} l ON l.job = c.job AND l.ident = '' WHERE c.job IS NOT NULL {conflict} \
             was_fingerprint = {fingerprint}, was_instance = {instance}, was_touched = {touched}, \
             fingerprint = {new_fingerprint}, instance_id = {new_instance}, touched = {new_touched}",
            jobs = t.jobs,
            rows = d.rows(COLUMNS, size),
            conflict = d.on_conflict_update("job, ident"),
            fingerprint = d.existing(&t.jobs, "fingerprint"),
            instance = d.existing(&t.jobs, "instance_id"),
            touched = d.existing(&t.jobs, "touched"),
            new_fingerprint = d.incoming("fingerprint"),
            new_instance = d.incoming("instance_id"),
            new_touched = d.incoming("touched"),
        );
        let mut statements = vec![Statement::new(lock, names.clone()), Statement::new(schedules, rows)];
        if let Some(first) = sorted.first() {
            statements.extend(self.forget(&first.job, forget_after));
        }
        let read = format!(
            "SELECT j.job, j.ident, j.touched, j.floor, j.fingerprint, j.instance_id, \
             j.was_fingerprint, j.was_instance, j.was_touched FROM {jobs} j WHERE j.job {named}",
            jobs = t.jobs,
            named = one_of(size),
        );
        statements.push(Statement::new(read, names));
        statements
    }

    /// Removes jobs that were touched too long before `now`, which is when `touched` was: one reading of the clock for
    /// all tables. They are looked for once a minute, by whoever registers then: going through all jobs at each
    /// registration would make many registrations slow.
    fn forget(&self, touched: &JobName, forget_after: i64) -> Vec<Statement> {
        let (t, d) = (self.tables, self.dialect);
        let due = format!("abs(n.touched - coalesce((SELECT m.v FROM {} m WHERE m.k = 'swept'), 0)) >= ?", t.meta);
        let old = format!(
            "FROM {jobs} n CROSS JOIN {jobs} o WHERE n.job = ? AND n.ident = '' AND {due} \
             AND o.ident = '' AND o.paused_at IS NULL AND o.touched < n.touched - ? \
             ORDER BY o.touched, o.job LIMIT {FORGET_AT_ONCE}",
            jobs = t.jobs,
        );
        let sweep_every = Value::from(SWEEP_EVERY_MS.min(forget_after));
        let values = vec![touched.as_str().into(), sweep_every.clone(), forget_after.into()];
        let gone = |table: &str, key: &[&str], keys: String| {
            d.delete_among(Among::new(table, key, Statement::new(keys, values.clone())))
        };
        // A job that somebody has locked is in use, or is being removed. Whoever waited for it, with jobs of their own
        // locked, might wait in a circle.
        let lock = self.lock_free("o");
        let by_job = |column: &str| format!("SELECT f.job AS {column} FROM (SELECT o.job {old}{lock}) f");
        // Runs that are not open have ended attempts, which lead to them by their job.
        let ended = format!(
            "SELECT a.slot, a.job, a.id FROM (SELECT o.job {old}{lock}) f CROSS JOIN {} a WHERE a.job = f.job",
            t.attempts
        );
        let mut statements = vec![
            gone(&t.runs, &["open_job"], by_job("open_job")),
            gone(&t.runs, RUN_KEY, ended),
            gone(&t.attempts, &["job"], by_job("job")),
            gone(&t.jobs, &["job"], by_job("job")),
        ];
        let swept = format!(
            "INSERT INTO {meta} (k, v) SELECT 'swept', n.touched FROM {jobs} n \
             WHERE n.job = ? AND n.ident = '' AND {due} {conflict} v = {v}",
            meta = t.meta,
            jobs = t.jobs,
            conflict = d.on_conflict_update("k"),
            v = d.incoming("v"),
        );
        statements.push(Statement::new(swept, vec![touched.as_str().into(), sweep_every]));
        statements
    }

    /// Reads what is known of these jobs, or of all.
    pub(super) fn known(&self, jobs: &[JobName]) -> Statement {
        let (named, values) = super::lease::among(jobs);
        let sql = format!(
            "SELECT j.job, j.ident, j.touched, j.trim_mark, j.paused_at, j.paused_by, j.pause_note, j.floor, \
             j.fingerprint, j.instance_id FROM {jobs} j WHERE j.job {named} ORDER BY j.job, j.ident",
            jobs = self.tables.jobs,
        );
        Statement::new(sql, values)
    }

    /// Pauses or resumes a job.
    pub(super) fn set_paused(&self, job: &JobName, pause: Option<&Pause>) -> Vec<Statement> {
        let (t, d) = (self.tables, self.dialect);
        let at = if pause.is_some() { "t.now_ms" } else { "NULL" };
        let set: Vec<String> =
            ["paused_at", "paused_by", "pause_note"].iter().map(|c| format!("{c} = {}", d.incoming(c))).collect();
        let sql = format!(
            "INSERT INTO {jobs} (job, ident, touched, paused_at, paused_by, pause_note) \
             SELECT c.job, '', t.now_ms, {at}, c.by_whom, c.note FROM {rows} c \
             CROSS JOIN (SELECT {clock} AS now_ms) t WHERE c.job IS NOT NULL {conflict} {set}",
            jobs = t.jobs,
            rows = d.rows(&[("job", Column::Key), ("by_whom", Column::Text), ("note", Column::Text)], 1),
            clock = d.clock(),
            conflict = d.on_conflict_update("job, ident"),
            set = set.join(", "),
        );
        let values =
            vec![job.as_str().into(), pause.map(|p| p.by.as_str()).into(), pause.map(|p| p.note.as_str()).into()];
        vec![Statement::new(sql, values)]
    }

    /// Reads a job's pause.
    pub(super) fn paused(&self, job: &JobName) -> Statement {
        let sql = format!(
            "SELECT j.paused_by, j.paused_at, j.pause_note FROM {} j \
             WHERE j.job = ? AND j.ident = '' AND j.paused_at IS NOT NULL",
            self.tables.jobs
        );
        Statement::new(sql, vec![job.as_str().into()])
    }
}
