//! SQLite's way of saying things.

use std::borrow::Cow;

use crate::backend::sql::{Column, SqlDialect, Value, hex};

/// The dialect of SQLite 3.35 and later, and of what speaks like it.
#[derive(Clone, Debug)]
pub struct SqliteDialect {
    clock: Cow<'static, str>,
    sessions: bool,
}

/// The wall clock in ms. It is read when the statement runs; `unixepoch('subsec')` is younger than 3.35.
const CLOCK: &str = "CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)";

impl SqliteDialect {
    /// The dialect with the machine's clock, which is SQLite's.
    #[must_use]
    pub const fn new() -> Self {
        Self { clock: Cow::Borrowed(CLOCK), sessions: true }
    }

    /// The dialect without temporary tables and triggers, for servers that speak SQLite's SQL.
    #[must_use]
    pub fn without_sessions(self) -> Self {
        Self { sessions: false, ..self }
    }

    /// The dialect with another clock, for tests: an SQL expression that gives ms since the epoch.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn with_clock(self, clock: impl Into<Cow<'static, str>>) -> Self {
        Self { clock: clock.into(), ..self }
    }
}

impl Default for SqliteDialect {
    fn default() -> Self {
        Self::new()
    }
}

impl SqlDialect for SqliteDialect {
    fn column(&self, column: Column) -> &str {
        match column {
            Column::Int => "INTEGER",
            // SQLite's own order of texts is bytewise.
            Column::Key | Column::Text => "TEXT",
        }
    }

    fn clock(&self) -> &str {
        &self.clock
    }

    fn literal(&self, value: &Value) -> String {
        match value {
            Value::Int(i64::MIN) => format!("({} - 1)", i64::MIN + 1),
            Value::Int(int) => format!("({int})"),
            Value::Text(text) => format!("CAST(x'{}' AS TEXT)", hex(text)),
            Value::Null => "NULL".to_owned(),
        }
    }

    fn check_schema(&self, schema: Option<&str>) -> Result<(), String> {
        match schema {
            None => Ok(()),
            Some(schema) => Err(format!("an SQLite file has no schemas, so the table's name goes without `{schema}.`")),
        }
    }

    /// The primary key is the table: no second tree beside it.
    fn table_options(&self) -> &str {
        "WITHOUT ROWID"
    }

    fn greatest(&self, a: &str, b: &str) -> String {
        format!("max({a}, {b})")
    }

    fn least(&self, a: &str, b: &str) -> String {
        format!("min({a}, {b})")
    }

    /// `VALUES` costs SQLite far less than as many `SELECT`s, and has no limit of 500. Its columns have no type, and
    /// without one they find no index.
    fn rows(&self, columns: &[(&str, Column)], rows: usize) -> String {
        let names: Vec<String> =
            (1..).zip(columns).map(|(n, (name, kind))| format!("{} AS {name}", typed(n, *kind))).collect();
        format!("(SELECT {} FROM {})", names.join(", "), values(columns.len(), rows))
    }

    fn row_list(&self, columns: &[Column], rows: usize) -> String {
        let columns_typed: Vec<String> = (1..).zip(columns).map(|(n, kind)| typed(n, *kind)).collect();
        format!("(SELECT {} FROM {})", columns_typed.join(", "), values(columns.len(), rows))
    }

    /// `BEGIN IMMEDIATE` has the only lock there is before the first statement runs.
    fn waits_for_locks(&self) -> bool {
        false
    }

    fn stages_in_sessions(&self) -> bool {
        self.sessions
    }
}

fn typed(column: usize, kind: Column) -> String {
    let kind = if kind == Column::Int { "INTEGER" } else { "TEXT" };
    format!("CAST(column{column} AS {kind})")
}

fn values(width: usize, rows: usize) -> String {
    let row = format!("({})", vec!["?"; width].join(", "));
    format!("(VALUES {})", vec![row.as_str(); rows].join(", "))
}
