//! What differs between databases.

use super::client::{Statement, Value};
use super::tables::Tables;
use crate::run::{Beat, Finish, ManualClaim, Registration, Release, RunClaim, Trim};
use crate::slot::JobName;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Column {
    /// A 64-bit integer.
    Int,
    /// A short text that is part of a key or compared: at most 512 bytes, compared byte by byte.
    Key,
    /// A text of any length.
    Text,
}

/// One call of the store, for a dialect that words it in its own way; see [`SqlDialect::replace`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Verb<'a> {
    /// Claims, each of another job, sorted by name. Columns of the answer: [`answer`](super::answer).
    Claim(&'a [RunClaim]),
    /// A manual run. Columns as for `Claim`.
    ClaimManual(&'a ManualClaim),
    /// Heartbeats; the second value is the number that marks the rows that were renewed.
    Heartbeat(&'a [Beat], i64),
    /// Ends of attempts.
    Finish(&'a [Finish]),
    /// The end of an attempt that went well, inside a transaction of the user's own; the second value is the number that
    /// marks the row. What the statements are sent in must not be assumed: they take the row's lock, and begin, set and
    /// end nothing.
    FinishWithin(&'a Finish, i64),
    /// Hand-overs and returns.
    Release(&'a [Release]),
    /// Registrations, each of another job; the second value is `forget_after` in ms.
    Register(&'a [Registration], i64),
    /// Trims, all with the same retention; the second value is the number that marks the rows that go.
    Trim(&'a [Trim], i64),
    /// The closing of manual runs whose lease is over, and the reading of the unfinished runs of these jobs (of all
    /// jobs, when there are none).
    Active(&'a [JobName]),
    /// The making of the tables, and of whatever else the dialect's statements need.
    Create,
    /// The reading of the format that the tables are in. No row means that something is missing that `Create` makes.
    Format,
}

/// Which rows a statement works on: those whose key columns are among the rows that a `SELECT` finds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Among<'a> {
    /// The table, quoted.
    pub table: &'a str,
    /// What the other parts of the statement call a row of it.
    pub alias: &'a str,
    /// The key columns.
    pub key: &'a [&'a str],
    /// The `SELECT`; its columns have the same names.
    pub keys: Statement,
    /// The end of it, if it locks what it finds: nothing, or a blank and [`SqlDialect::for_update`]'s.
    pub lock: String,
}

impl<'a> Among<'a> {
    /// The rows of `table` whose `key` is among those of `keys`; their alias is `r`.
    #[must_use]
    pub fn new(table: &'a str, key: &'a [&'a str], keys: Statement) -> Self {
        Self { table, alias: "r", key, keys, lock: String::new() }
    }
}

/// What differs between databases: types, the clock, quoting, the encoding of values, and a few wordings.
///
/// The portable statements of this module are the reference. They need: multi-row upserts, `CASE`, scalar and `EXISTS`
/// subqueries, row values in `IN`, and `LIMIT … OFFSET`. They read no row count, need no bound values and no
/// `RETURNING`, and update no table that a subquery of the same statement reads. Where that is not enough, or
/// not fast enough, [`replace`](Self::replace) puts other statements in the place of a whole verb's.
///
/// In a `SET` list, an assignment never reads a column that an earlier one of the same list changed, so databases that
/// assign from left to right get the same result.
pub trait SqlDialect: Send + Sync + 'static {
    /// The column type for `column`, with the collation that compares byte by byte.
    fn column(&self, column: Column) -> &str;

    /// An expression: the database's own clock, in ms since the epoch, as an integer. It has to be the time at which
    /// the statement runs, not the one at which its transaction or its message began.
    fn clock(&self) -> &str;

    /// The expression of a value: integers in decimal, texts so that nothing in them can end the literal. The one
    /// place where values become text.
    fn literal(&self, value: &Value) -> String;

    /// Quotes the name of a table, a schema or an index, which has ASCII letters, digits and `_` only.
    fn quote(&self, name: &str) -> String {
        format!("\"{name}\"")
    }

    /// Refuses a schema that cannot be used.
    ///
    /// # Errors
    /// What is wrong.
    fn check_schema(&self, schema: Option<&str>) -> Result<(), String> {
        let _ = schema;
        Ok(())
    }

    /// What follows the column list of `CREATE TABLE`; each table has a primary key.
    fn table_options(&self) -> &str {
        ""
    }

    /// The statement that makes the index on `open_job`, unless it is there. Rows without one need not be in it.
    fn open_index(&self, tables: &Tables) -> String {
        format!(
            "CREATE INDEX IF NOT EXISTS {} ON {} (open_job) WHERE open_job IS NOT NULL",
            self.quote(&format!("{}_open", tables.base)),
            tables.runs
        )
    }

    /// The same index as an element of the runs' `CREATE TABLE`, where `CREATE INDEX` knows no `IF NOT EXISTS`. If this
    /// is given, [`open_index`](Self::open_index) is not made.
    fn open_key(&self) -> Option<&str> {
        None
    }

    /// What ends a `SELECT` so that it locks the rows it finds of the table with this alias, where transactions run
    /// beside each other: a row that others have locked is waited for, or passed over. `None` where no row needs a lock,
    /// since a transaction holds the only write lock from its first statement on.
    ///
    /// With it, a claim, a heartbeat or a trim never waits for the row of a run. A statement that reads rows without
    /// locking them must see what was committed before it began, so the client's transactions are READ COMMITTED.
    fn for_update(&self, alias: &str, pass_locked: bool) -> Option<String> {
        let _ = (alias, pass_locked);
        None
    }

    /// The update of rows `r` of `table`, or of the table by its own name if that is the alias: those whose `key` is
    /// among the rows of `keys`, a `SELECT` that may read and lock the same table, and that fulfil `also`. The values of
    /// the three parts go where the parts do.
    fn update_among(&self, update: Among<'_>, set: Statement, also: Statement) -> Statement {
        let Among { table, alias, key, keys, lock } = update;
        let named = if alias == table { String::new() } else { format!(" AS {alias}") };
        let key: Vec<String> = key.iter().map(|column| format!("{alias}.{column}")).collect();
        let sql = format!(
            "UPDATE {table}{named} SET {} WHERE ({}) IN ({}{lock}) AND {}",
            set.sql,
            key.join(", "),
            keys.sql,
            also.sql
        );
        Statement::new(sql, [set.values, keys.values, also.values].concat())
    }

    /// The deletion of the rows whose `key` is among the rows of `keys`, a `SELECT` that may read the same table.
    fn delete_among(&self, delete: Among<'_>) -> Statement {
        let Among { table, key, keys, lock, .. } = delete;
        Statement::new(format!("DELETE FROM {table} WHERE ({}) IN ({}{lock})", key.join(", "), keys.sql), keys.values)
    }

    /// One statement that removes the runs whose `mark` is a value, and all their attempts, of which a condition on the
    /// attempts `a` finds some; rows that are locked stay. `None` is two statements, of which the second reads runs without
    /// locking them.
    fn delete_marked(&self, tables: &Tables, among: &Statement, mark: i64) -> Option<Statement> {
        let _ = (tables, among, mark);
        None
    }

    /// Whether claims are staged in temporary tables of the connection and worked on by a temporary trigger, instead of
    /// in the jobs' rows by statements, if the [client](super::SqlClient::on_connect) can do that. For SQLite alone:
    /// there a transaction holds the one write lock from its beginning, so no row has to be locked.
    fn stages_in_sessions(&self) -> bool {
        false
    }

    /// The larger of two expressions, neither of which is NULL.
    fn greatest(&self, a: &str, b: &str) -> String {
        format!("greatest({a}, {b})")
    }

    /// The smaller of two expressions, neither of which is NULL.
    fn least(&self, a: &str, b: &str) -> String {
        format!("least({a}, {b})")
    }

    /// A table of `rows` rows of `?` marks, with these columns, in parentheses and without an alias.
    fn rows(&self, columns: &[(&str, Column)], rows: usize) -> String {
        let first: Vec<String> = columns.iter().map(|(name, _)| format!("? AS {name}")).collect();
        let more = vec!["?"; columns.len()].join(", ");
        let mut sql = format!("(SELECT {}", first.join(", "));
        for _ in 1..rows {
            sql.push_str(" UNION ALL SELECT ");
            sql.push_str(&more);
        }
        sql.push(')');
        sql
    }

    /// A list of `rows` row values of `?` marks, for these columns, in parentheses: the right side of `IN`.
    fn row_list(&self, columns: &[Column], rows: usize) -> String {
        let row = format!("({})", vec!["?"; columns.len()].join(", "));
        format!("({})", vec![row.as_str(); rows].join(", "))
    }

    /// The head of what an `INSERT` does when its key is taken: assignments follow.
    fn on_conflict_update(&self, key: &str) -> String {
        format!("ON CONFLICT ({key}) DO UPDATE SET")
    }

    /// The clause that leaves a row alone when its key is taken.
    fn on_conflict_ignore(&self, key: &str) -> String {
        format!("ON CONFLICT ({key}) DO NOTHING")
    }

    /// In the assignments after [`on_conflict_update`](Self::on_conflict_update): the value that was to be inserted.
    fn incoming(&self, column: &str) -> String {
        format!("excluded.{column}")
    }

    /// In the same place: the value that is stored, in the table that is inserted into.
    fn existing(&self, table: &str, column: &str) -> String {
        format!("{table}.{column}")
    }

    /// Whether taking a job's lock may wait, so that the clock has to be read again in a statement of its own after
    /// it. Not so where the transaction's first statement holds every lock already.
    fn waits_for_locks(&self) -> bool {
        true
    }

    /// Statements to be sent in place of the portable ones for one call; `None` is the portable ones. The last one
    /// returns the rows that the portable one would.
    fn replace(&self, verb: Verb<'_>, tables: &Tables) -> Option<Vec<Statement>> {
        let _ = (verb, tables);
        None
    }

    /// A statement as text alone, each `?` replaced by its value's [`literal`](Self::literal), for clients that cannot
    /// bind.
    fn text_of(&self, statement: &Statement) -> String {
        fill(statement, |value| self.literal(value))
    }
}

/// A statement as text alone, each `?` replaced by its value's literal.
pub(super) fn fill(statement: &Statement, literal: impl Fn(&Value) -> String) -> String {
    let mut text = String::with_capacity(statement.sql.len() + 32 * statement.values.len());
    let mut values = statement.values.iter();
    for part in statement.sql.split_inclusive('?') {
        match part.strip_suffix('?') {
            Some(before) => {
                text.push_str(before);
                text.push_str(&literal(values.next().unwrap_or(&Value::Null)));
            }
            None => text.push_str(part),
        }
    }
    text
}

/// A text as hexadecimal digits, two a byte, as the literals of most databases take it.
#[must_use]
pub fn hex(text: &str) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'0'));
    text.bytes().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
