//! Locks on the rows of runs, where transactions run beside each other. A run that is locked by a finish, a heartbeat or
//! a transaction of the application counts as alive: what could wait for it passes it over.
//!
//! The lock of a job's row makes the claims and trims of the job take turns, but ends and heartbeats do not take it. So
//! whatever is written because of what a run holds is decided by a read that locks the run, and sees its latest state.

use super::client::Statement;
use super::dialect::{Among, SqlDialect};
use super::{Sql, Value};

/// The key of a run.
pub(super) const RUN_KEY: &[&str] = &["slot", "job", "id"];

impl<D: SqlDialect> Sql<'_, D> {
    /// The end of a `SELECT` that waits for the rows of this alias and locks them.
    pub(super) fn lock(&self, alias: &str) -> String {
        self.dialect.for_update(alias, false).map(|clause| format!(" {clause}")).unwrap_or_default()
    }

    /// The end of a `SELECT` that locks the rows of this alias, but those that others have locked.
    pub(super) fn lock_free(&self, alias: &str) -> String {
        self.dialect.for_update(alias, true).map(|clause| format!(" {clause}")).unwrap_or_default()
    }

    /// Whether rows have to be locked at all.
    pub(super) fn locks_rows(&self) -> bool {
        self.dialect.for_update("r", true).is_some()
    }

    /// Whether the run `r`, as a read that did not lock it saw it, is still like that, and nobody else has it locked; it
    /// is locked by us from then on.
    pub(super) fn free(&self, r: &str) -> String {
        if !self.locks_rows() {
            return "1 = 1".to_owned();
        }
        format!(
            "EXISTS (SELECT 1 FROM {runs} f WHERE f.slot = {r}.slot AND f.job = {r}.job AND f.id = {r}.id \
             AND f.status = {r}.status AND f.until_ms = {r}.until_ms AND f.fence = {r}.fence \
             AND f.releases = {r}.releases{lock})",
            runs = self.tables.runs,
            lock = self.lock_free("f"),
        )
    }

    /// Whether there is a row, which is looked up by its key: `rows` is what follows `FROM`. It is worded so that an update
    /// does not become a join that goes through, and locks, a whole table.
    pub(super) fn there_is(&self, rows: &str) -> String {
        if self.locks_rows() {
            format!("(SELECT count(*) FROM {rows}) > 0")
        } else {
            format!("EXISTS (SELECT 1 FROM {rows})")
        }
    }

    /// The update of unfinished runs, called `alias`: those of which `among` is true by an index and which are not locked.
    pub(super) fn update_runs(
        &self,
        alias: &str,
        set: Statement,
        among: impl Fn(&str) -> String,
        among_values: Vec<Value>,
        also: String,
    ) -> Statement {
        let runs = &self.tables.runs;
        if self.locks_rows() {
            // A column that no index has: of a row that is read, the lock is given back if it is none of those.
            let keys = format!(
                "SELECT f.slot, f.job, f.id FROM (SELECT 1 AS one) o {} \
                 WHERE {} AND f.status IN ('running', 'waiting')",
                self.dialect.look_up(runs, "f", true),
                among("f")
            );
            return self.update_free(alias, set, Statement::new(keys, among_values), also);
        }
        // An update names its table without an alias where it has none: inside a trigger SQLite allows no other.
        let named = if alias == runs { String::new() } else { format!(" AS {alias}") };
        let sql =
            format!("UPDATE {runs}{named} SET {set} WHERE {among} AND {also}", set = set.sql, among = among(alias));
        Statement::new(sql, [set.values, among_values].concat())
    }

    /// The update of those of the runs `f` of a `SELECT` of their keys that nobody else has locked.
    pub(super) fn update_free(&self, alias: &str, set: Statement, keys: Statement, also: String) -> Statement {
        let update = Among { alias, lock: self.lock_free("f"), ..Among::new(&self.tables.runs, RUN_KEY, keys) };
        self.dialect.update_among(update, set, Statement::new(also, Vec::new()))
    }
}
