//! MySQL's way of saying things.

use std::borrow::Cow;

use crate::backend::sql::{Among, Column, SqlDialect, Statement, Tables, Value, hex};

/// The dialect of MySQL 8 and MariaDB 10.6, and of what came after them.
#[derive(Clone, Debug)]
pub struct MySqlDialect {
    clock: Cow<'static, str>,
}

/// The wall clock in ms, read when the statement gets to it: `now()` is the statement's beginning, before it has waited
/// for a lock. The session's time zone has to be UTC, or an hour in autumn would come twice.
const CLOCK: &str = "CAST(ROUND(UNIX_TIMESTAMP(SYSDATE(3)) * 1000) AS SIGNED)";

/// A limit keeps a subquery apart from the statement around it: a target cannot be read otherwise (error 1093), and its
/// rows would be locked without passing over those that others have.
const APART: &str = "LIMIT 1000000";

impl MySqlDialect {
    /// The dialect with the server's clock.
    #[must_use]
    pub const fn new() -> Self {
        Self { clock: Cow::Borrowed(CLOCK) }
    }

    /// The dialect with another clock, for tests: an SQL expression that gives ms since the epoch.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn with_clock(self, clock: impl Into<Cow<'static, str>>) -> Self {
        Self { clock: clock.into() }
    }
}

impl Default for MySqlDialect {
    fn default() -> Self {
        Self::new()
    }
}

/// The rows of a `SELECT`, and those of the table that they lead to.
fn led_to(among: &Among<'_>) -> String {
    let Among { table, alias, key, keys, lock } = among;
    let named = if alias == table { String::new() } else { format!(" {alias}") };
    let on: Vec<String> = key.iter().map(|column| format!("{alias}.{column} = led.{column}")).collect();
    // By its key: a small table would be gone through instead, waiting for rows that were to be passed over.
    let key = "FORCE INDEX (PRIMARY)";
    format!("({} {APART}{lock}) led STRAIGHT_JOIN {table}{named} {key} ON {}", keys.sql, on.join(" AND "))
}

impl SqlDialect for MySqlDialect {
    fn column(&self, column: Column) -> &str {
        match column {
            Column::Int => "BIGINT",
            // Every collation of texts takes some that differ for the same: case, accents, or blanks at the end.
            Column::Key => "VARBINARY(512)",
            Column::Text => "LONGTEXT CHARACTER SET utf8mb4",
        }
    }

    fn clock(&self) -> &str {
        &self.clock
    }

    fn literal(&self, value: &Value) -> String {
        match value {
            Value::Int(int) => int.to_string(),
            Value::Text(text) => format!("x'{}'", hex(text)),
            Value::Null => "NULL".to_owned(),
        }
    }

    fn quote(&self, name: &str) -> String {
        format!("`{name}`")
    }

    fn table_options(&self) -> &str {
        "ENGINE=InnoDB ROW_FORMAT=DYNAMIC"
    }

    fn open_key(&self) -> Option<&str> {
        Some("KEY open_job (open_job)")
    }

    fn for_update(&self, _alias: &str, pass_locked: bool) -> Option<String> {
        Some(if pass_locked { "FOR UPDATE SKIP LOCKED" } else { "FOR UPDATE" }.to_owned())
    }

    /// A join goes from the rows that were found to those of the table; with `IN` the whole table would be gone through,
    /// and locked.
    fn update_among(&self, update: Among<'_>, set: Statement, also: Statement) -> Statement {
        let sql = format!("UPDATE {} SET {} WHERE {}", led_to(&update), set.sql, also.sql);
        Statement::new(sql, [update.keys.values, set.values, also.values].concat())
    }

    fn delete_among(&self, delete: Among<'_>) -> Statement {
        Statement::new(format!("DELETE {} FROM {}", delete.alias, led_to(&delete)), delete.keys.values)
    }

    fn delete_marked(&self, tables: &Tables, among: &Statement, mark: i64) -> Option<Statement> {
        let (attempts, runs) = (&tables.attempts, &tables.runs);
        let sql = format!(
            "DELETE a, r FROM (SELECT a.job, a.id, a.slot, a.token FROM {attempts} a STRAIGHT_JOIN {runs} f \
             ON f.slot = a.slot AND f.job = a.job AND f.id = a.id WHERE {} AND f.mark = ? \
             {APART} FOR UPDATE SKIP LOCKED) led \
             STRAIGHT_JOIN {attempts} a ON a.job = led.job AND a.id = led.id AND a.slot = led.slot AND a.token = led.token \
             STRAIGHT_JOIN {runs} r ON r.slot = led.slot AND r.job = led.job AND r.id = led.id",
            among.sql
        );
        Some(Statement::new(sql, [among.values.clone(), vec![Value::Int(mark)]].concat()))
    }

    fn on_conflict_update(&self, _key: &str) -> String {
        "ON DUPLICATE KEY UPDATE".to_owned()
    }

    fn on_conflict_ignore(&self, key: &str) -> String {
        let column = key.split(',').next().unwrap_or(key);
        format!("ON DUPLICATE KEY UPDATE {column} = VALUES({column})")
    }

    fn incoming(&self, column: &str) -> String {
        format!("VALUES({column})")
    }
}
