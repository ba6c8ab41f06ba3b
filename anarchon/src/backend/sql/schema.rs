//! The four tables, and the format that they are in.

use super::Sql;
use super::client::Statement;
use super::dialect::{Column, SqlDialect};
use super::stage::{FOUND, REQUEST};
use super::tables::Tables;

/// The format this release writes.
pub(super) const FORMAT: i64 = 1;
/// The newest format this release can work with: one more than it writes, so that a rolling deploy can go up and down.
pub(in crate::backend) const NEWEST: i64 = FORMAT + 1;

/// The `id` of a record of skipped slots; a slot's run has the empty one, a manual run its token.
pub(in crate::backend) const SKIP_ID: &str = "skip";

/// The runs, each with its latest attempt. By slot first: what falls due together lies together, so a batch of claims
/// touches few pages.
const RUNS: &[(&str, Column, &str)] = &[
    ("slot", Column::Int, "NOT NULL"),
    ("job", Column::Key, "NOT NULL"),
    ("id", Column::Key, "NOT NULL"),
    ("status", Column::Key, "NOT NULL"),
    // The job again while the run is running or waiting, so that an index of few rows finds the unfinished ones.
    ("open_job", Column::Key, ""),
    // The number of the latest attempt that was not returned.
    ("attempt", Column::Int, "NOT NULL"),
    ("failures", Column::Int, "NOT NULL DEFAULT 0"),
    ("releases", Column::Int, "NOT NULL DEFAULT 0"),
    // The token of the open attempt. Cleared when it ends, so that no late packet of it can match again.
    ("token", Column::Key, ""),
    // Of the latest attempt, open or not: its fence, which no other attempt of the job has, and so on.
    ("fence", Column::Int, "NOT NULL"),
    ("reason", Column::Key, "NOT NULL"),
    ("instance_id", Column::Key, "NOT NULL"),
    ("claimed_at", Column::Int, "NOT NULL"),
    // A remark on it that came after its end.
    ("note", Column::Key, ""),
    // The end of the lease, or of the wait for a retry.
    ("until_ms", Column::Int, "NOT NULL"),
    ("last_ended", Column::Key, ""),
    ("max_attempts", Column::Int, "NOT NULL"),
    ("retry_ms", Column::Int, ""),
    ("within_ms", Column::Int, "NOT NULL"),
    // Whether other runs of the job mind it: all but the plain manual ones.
    ("counts", Column::Int, "NOT NULL"),
    // Set to a call's own number by what it did, to be read back in the same call.
    ("mark", Column::Int, ""),
];

/// The columns of a run that starts.
pub(in crate::backend) const NEW_RUN: &str = "slot, job, id, status, open_job, attempt, token, fence, reason, \
    instance_id, claimed_at, until_ms, max_attempts, retry_ms, within_ms, counts";

/// The history: attempts, once they have ended, and records of skipped slots, by job. The token is part of the key: a
/// returned attempt gives its number back. In a record of skipped slots, `slot` is the first and `last_slot` the last.
const ATTEMPTS: &[(&str, Column, &str)] = &[
    ("job", Column::Key, "NOT NULL"),
    ("id", Column::Key, "NOT NULL"),
    ("slot", Column::Int, "NOT NULL"),
    ("token", Column::Key, "NOT NULL"),
    ("attempt", Column::Int, "NOT NULL"),
    ("fence", Column::Int, "NOT NULL"),
    ("reason", Column::Key, "NOT NULL"),
    ("instance_id", Column::Key, "NOT NULL"),
    ("status", Column::Key, "NOT NULL"),
    ("claimed_at", Column::Int, "NOT NULL"),
    ("ended_at", Column::Int, ""),
    ("error", Column::Text, ""),
    ("note", Column::Key, ""),
    ("last_slot", Column::Int, ""),
    ("skip_count", Column::Int, ""),
];

/// The columns of an attempt that its run has while it is open.
pub(in crate::backend) const OPEN_ATTEMPT: &str =
    "job, id, slot, token, attempt, fence, reason, instance_id, claimed_at";

/// The jobs: with an empty `ident` the row whose lock makes claims take turns, otherwise `=` and a schedule identity.
/// The columns of the [stage](super::stage), named `c_…`, follow: the scratch of the call that has the lock; or those of a
/// dialect's own.
const JOBS: &[(&str, Column, &str)] = &[
    ("job", Column::Key, "NOT NULL"),
    ("ident", Column::Key, "NOT NULL"),
    ("touched", Column::Int, "NOT NULL"),
    ("fence", Column::Int, "NOT NULL DEFAULT 0"),
    ("trim_mark", Column::Int, ""),
    ("paused_at", Column::Int, ""),
    ("paused_by", Column::Text, ""),
    ("pause_note", Column::Text, ""),
    ("floor", Column::Int, ""),
    ("fingerprint", Column::Text, ""),
    ("instance_id", Column::Key, ""),
    // What the latest registration of this identity replaced, to be read back in the same call.
    ("was_fingerprint", Column::Text, ""),
    ("was_instance", Column::Key, ""),
    ("was_touched", Column::Int, ""),
];

const META: &[(&str, Column, &str)] = &[("k", Column::Key, "NOT NULL"), ("v", Column::Int, "")];

/// The statements that make the four tables, for a dialect whose [`Verb::Create`](super::Verb::Create) makes more than
/// those. They may run any number of times, and by several instances at once.
///
/// `own` are columns of the jobs' rows, by name, for a dialect that replaces all verbs that claim; for the others, `None`
/// adds those in which the portable statements work.
pub fn create_tables<D: SqlDialect>(tables: &Tables, dialect: &D, own: Option<&[(&str, Column)]>) -> Vec<Statement> {
    Sql { tables, dialect, apart: false }.create(own)
}

impl<D: SqlDialect> Sql<'_, D> {
    /// What makes the tables, with these columns of a dialect's own in the jobs' rows. It may run any number of times, and
    /// by several instances at once.
    pub(super) fn create(&self, own: Option<&[(&str, Column)]>) -> Vec<Statement> {
        let t = self.tables;
        let scratch: Vec<_> = [REQUEST, FOUND].concat().into_iter().filter(|(name, _)| *name != "job").collect();
        let more: Vec<_> = own.unwrap_or(&scratch).iter().map(|(name, kind)| (*name, *kind, "")).collect();
        let mut statements: Vec<String> = vec![
            self.table(&t.runs, RUNS, "slot, job, id", self.dialect.open_key()),
            self.table(&t.attempts, ATTEMPTS, "job, id, slot, token", None),
            self.table(&t.jobs, &[JOBS, &more].concat(), "job, ident", None),
            self.table(&t.meta, META, "k", None),
        ];
        if self.dialect.open_key().is_none() {
            statements.push(self.dialect.open_index(t));
        }
        // Last, so that where a database commits each of these by itself, a format says that the rest is there.
        statements.push(format!(
            "INSERT INTO {} (k, v) VALUES ('format', {FORMAT}) {}",
            t.meta,
            self.dialect.on_conflict_ignore("k")
        ));
        statements.into_iter().map(|sql| Statement::new(sql, Vec::new())).collect()
    }

    fn table(&self, name: &str, columns: &[(&str, Column, &str)], key: &str, more: Option<&str>) -> String {
        let mut elements: Vec<String> = columns
            .iter()
            .map(|(column, kind, rest)| format!("{column} {} {rest}", self.dialect.column(*kind)).trim_end().to_owned())
            .collect();
        elements.push(format!("PRIMARY KEY ({key})"));
        elements.extend(more.map(str::to_owned));
        format!("CREATE TABLE IF NOT EXISTS {name} ({}) {}", elements.join(", "), self.dialect.table_options())
    }

    /// Reads the format.
    pub(super) fn format(&self) -> Statement {
        Statement::new(format!("SELECT v FROM {} WHERE k = 'format'", self.tables.meta), Vec::new())
    }
}
