//! The four tables, and the format that they are in.

use super::Sql;
use super::client::Statement;
use super::dialect::{Column, SqlDialect};

/// The format this release writes.
pub(super) const FORMAT: i64 = 1;
/// The newest format this release can work with: one more than it writes, so that a rolling deploy can go up and down.
pub(super) const NEWEST: i64 = FORMAT + 1;

/// The condition of an unfinished run; word for word that of the index of unfinished runs.
pub(super) const OPEN: &str = "status IN ('running', 'waiting')";
/// The `id` of a record of skipped slots; a slot's run has the empty one, a manual run its token.
pub(super) const SKIP_ID: &str = "skip";

/// The runs. Manual runs and records of skipped slots have key spaces of their own, by their `id`. In a record of
/// skipped slots, `slot` is the first and `last_slot` the last one.
const RUNS: &[(&str, Column, &str)] = &[
    ("job", Column::Key, "NOT NULL"),
    ("id", Column::Key, "NOT NULL"),
    ("slot", Column::Int, "NOT NULL"),
    ("status", Column::Key, "NOT NULL"),
    ("attempt", Column::Int, "NOT NULL DEFAULT 0"),
    ("failures", Column::Int, "NOT NULL DEFAULT 0"),
    ("releases", Column::Int, "NOT NULL DEFAULT 0"),
    // The token of the open attempt. Cleared when it ends, so that no late packet of it can match again.
    ("token", Column::Key, ""),
    // The token of the latest attempt, open or not.
    ("last_token", Column::Key, ""),
    // The end of the lease, or of the wait for a retry.
    ("until_ms", Column::Int, "NOT NULL DEFAULT 0"),
    ("last_ended", Column::Key, ""),
    ("max_attempts", Column::Int, "NOT NULL DEFAULT 1"),
    ("retry_ms", Column::Int, ""),
    ("within_ms", Column::Int, "NOT NULL DEFAULT 0"),
    // Whether other runs of the job mind it: all but the plain manual ones.
    ("counts", Column::Int, "NOT NULL DEFAULT 1"),
    // Set to a call's own number by what it did, to be read back in the same call.
    ("mark", Column::Int, ""),
    ("last_slot", Column::Int, ""),
    ("skip_count", Column::Int, ""),
    ("skip_reason", Column::Key, ""),
];

/// The history. The token is part of the key: a returned attempt gives its number back.
const ATTEMPTS: &[(&str, Column, &str)] = &[
    ("job", Column::Key, "NOT NULL"),
    ("slot", Column::Int, "NOT NULL"),
    ("id", Column::Key, "NOT NULL"),
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
];

/// The jobs: with an empty `ident` the row whose lock makes claims take turns, otherwise `=` and a schedule identity.
/// The columns named `c_…` are the scratch of the call that has the lock: what is asked, and what was decided.
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
    ("c_now", Column::Int, ""),
    ("c_do", Column::Key, ""),
    ("c_kind", Column::Key, ""),
    ("c_slot", Column::Int, ""),
    ("c_token", Column::Key, ""),
    ("c_instance", Column::Key, ""),
    ("c_ident", Column::Key, ""),
    ("c_floor", Column::Int, ""),
    ("c_previous", Column::Int, ""),
    ("c_limit", Column::Int, ""),
    ("c_lease", Column::Int, ""),
    ("c_skip", Column::Int, ""),
    ("c_max", Column::Int, ""),
    ("c_retry", Column::Int, ""),
    ("c_within", Column::Int, ""),
    ("c_valid", Column::Int, ""),
];

const META: &[(&str, Column, &str)] = &[("k", Column::Key, "NOT NULL"), ("v", Column::Int, "")];

impl<D: SqlDialect> Sql<'_, D> {
    /// What makes the tables. It may run any number of times, and by several instances at once.
    pub(super) fn create(&self) -> Vec<Statement> {
        let t = self.tables;
        let mut statements: Vec<String> = vec![
            self.table(&t.runs, RUNS, "job, id, slot"),
            self.table(&t.attempts, ATTEMPTS, "job, slot, id, token"),
            self.table(&t.jobs, JOBS, "job, ident"),
            self.table(&t.meta, META, "k"),
            self.dialect.open_index(t),
        ];
        // Last, so that where a database commits each of these by itself, a format says that the rest is there.
        statements.push(format!(
            "INSERT INTO {} (k, v) VALUES ('format', {FORMAT}) {}",
            t.meta,
            self.dialect.on_conflict_ignore("k")
        ));
        statements.into_iter().map(|sql| Statement::new(sql, Vec::new())).collect()
    }

    fn table(&self, name: &str, columns: &[(&str, Column, &str)], key: &str) -> String {
        let columns: Vec<String> = columns
            .iter()
            .map(|(column, kind, rest)| format!("{column} {} {rest}", self.dialect.column(*kind)).trim_end().to_owned())
            .collect();
        format!(
            "CREATE TABLE IF NOT EXISTS {name} ({}, PRIMARY KEY ({key})) {}",
            columns.join(", "),
            self.dialect.table_options()
        )
    }

    /// Reads the format.
    pub(super) fn format(&self) -> Statement {
        Statement::new(format!("SELECT v FROM {} WHERE k = 'format'", self.tables.meta), Vec::new())
    }
}
