//! Leases, claims and history on a SQL database, done once for all of them.
//!
//! A store is a [`SqlClient`] (it runs statements) and a [`SqlDialect`] (what differs between databases). From the two,
//! [`SqlBackend`] makes a complete [`LeaseBackend`](crate::LeaseBackend): the tables, the claim as one atomic batch, leases and history.
//! `SqliteBackend` is built on nothing else.
//!
//! Every call of the contract is one call of the client: a batch where something is written, one query where something
//! is read. The decisions are made by SQL, on the database's clock, under the lock of the job's row.

pub mod answer;
mod backend;
mod claim;
mod client;
pub mod clients;
mod dialect;
mod finish;
#[cfg(any(feature = "sqlite", feature = "mysql", feature = "libsql"))]
mod front;
mod history;
mod lease;
mod locks;
mod many;
mod register;
mod schema;
mod session;
mod stage;
mod tables;
mod text;

/// What a dialect that words verbs by itself has to have in common with the portable statements.
#[cfg(feature = "_postgres")]
pub(in crate::backend) mod common {
    pub(in crate::backend) use super::answer::id_of;
    pub(in crate::backend) use super::claim::TOUCH_MS;
    #[cfg(feature = "postgres")]
    pub(in crate::backend) use super::finish::Wording;
    pub(in crate::backend) use super::history::TRIM_AT_ONCE;
    pub(in crate::backend) use super::ident;
    pub(in crate::backend) use super::register::{FORGET_AT_ONCE, SWEEP_EVERY_MS};
    pub(in crate::backend) use super::schema::{NEW_RUN, NEWEST, OPEN_ATTEMPT, SKIP_ID};
    pub(in crate::backend) use super::stage::{claim_numbers, claim_values, millis};
}

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use self::claim::ClaimTexts;
pub use self::client::{Row, SqlClient, SqlError, Statement, Value};
pub use self::dialect::{Among, Column, SqlDialect, Verb, hex};
pub use self::finish::TransactionalFinish;
#[cfg(feature = "_sqlx")]
pub use self::finish::{Finish, FinishDatabase, FinishError};
#[cfg(any(feature = "sqlite", feature = "mysql", feature = "libsql"))]
pub(crate) use self::front::front;
pub use self::schema::create_tables;
use self::stage::Asked;
pub use self::tables::Tables;
use super::gather::Gather;
use crate::error::{BackendError, BackendErrorKind};

/// The name of the runs' table, unless another is asked for.
pub const DEFAULT_TABLE: &str = "anarchon_runs";

/// What statements are written with.
#[derive(Debug)]
struct Sql<'a, D> {
    tables: &'a Tables,
    dialect: &'a D,
    /// Whether the [stage] is a temporary table.
    apart: bool,
}

/// The next size that statements are written for: few sizes mean few texts, and prepared statements are met again.
fn padded(count: usize) -> usize {
    count.max(1).next_power_of_two()
}

/// The same where each row that is too many costs more than a text: eight sizes between a power of two and the next.
fn padded_closely(count: usize) -> usize {
    count.max(1).next_multiple_of((padded(count) / 16).max(1))
}

/// How a schedule identity is kept beside the job's own row, whose identity is empty.
pub(in crate::backend) fn ident(identity: &str) -> String {
    ["=", identity].concat()
}

/// A number that no other call uses.
fn new_mark() -> i64 {
    rand::random::<i64>() & i64::MAX
}

/// A lease backend on any SQL database for which there is a client and a dialect.
///
/// Nothing connects before [`connect`](crate::Backend::connect). The tables are made when they are missing, by any number of
/// instances at once; where the user may not make tables, one start as a privileged user does, and SELECT, INSERT,
/// UPDATE and DELETE on the four tables are enough from then on.
///
/// ```
/// # use anarchon::backend::sql::{Column, SqlDialect, Value, hex};
/// /// What a dialect must say at least; everything else has a default that fits PostgreSQL's SQL.
/// struct Dialect;
///
/// impl SqlDialect for Dialect {
///     fn column(&self, column: Column) -> &str {
///         match column {
///             Column::Int => "bigint",
///             _ => "text COLLATE \"C\"",
///         }
///     }
///     fn clock(&self) -> &str {
///         "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
///     }
///     fn literal(&self, value: &Value) -> String {
///         match value {
///             Value::Int(i) => format!("({i})"),
///             Value::Text(text) => format!("convert_from(decode('{}', 'hex'), 'UTF8')", hex(text)),
///             _ => "NULL".to_owned(),
///         }
///     }
/// }
/// # let _ = Dialect;
/// ```
pub struct SqlBackend<C, D> {
    name: String,
    client: C,
    dialect: D,
    tables: Result<Tables, String>,
    /// Whether the tables were found in a format that this release knows; doubted again after an error.
    ready: AtomicBool,
    claims: Mutex<HashMap<usize, Arc<ClaimTexts>>>,
    sessions: Mutex<HashMap<session::Shape, String>>,
    gather: Gather,
    /// Whether each connection has a stage of its own; settled at the first call.
    apart: OnceLock<bool>,
}

impl<C, D> fmt::Debug for SqlBackend<C, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlBackend").field("name", &self.name).field("tables", &self.tables).finish_non_exhaustive()
    }
}

impl<C: SqlClient, D: SqlDialect> SqlBackend<C, D> {
    /// A backend called `name` in logs and errors, on the tables `anarchon_runs…`.
    pub fn new(name: impl Into<String>, client: C, dialect: D) -> Self {
        let tables = Tables::new(DEFAULT_TABLE, &dialect);
        let (ready, apart, gather) = (AtomicBool::new(false), OnceLock::new(), Gather::default());
        let (claims, sessions) = (Mutex::default(), Mutex::default());
        Self { name: name.into(), client, dialect, tables, ready, claims, sessions, gather, apart }
    }

    /// Uses other tables: `cron_runs`, or `jobs.cron_runs` in a schema that exists. A name that cannot be one is an
    /// error at connect: letters, digits and `_` (ASCII), at most 48 of them.
    #[must_use]
    pub fn table(self, name: &str) -> Self {
        Self { tables: Tables::new(name, &self.dialect), ..self.afresh() }
    }

    /// The client.
    pub fn client(&self) -> &C {
        &self.client
    }

    /// The same backend with its client changed.
    #[must_use]
    pub fn map_client(self, map: impl FnOnce(C) -> C) -> Self {
        let this = self.afresh();
        Self { client: map(this.client), ..this }
    }

    /// The same backend with its dialect changed.
    #[must_use]
    pub fn map_dialect(self, map: impl FnOnce(D) -> D) -> Self {
        let this = self.afresh();
        Self { dialect: map(this.dialect), ..this }
    }

    /// Forgets what was settled or written for other tables, another client or another dialect.
    fn afresh(self) -> Self {
        let (ready, apart) = (AtomicBool::new(false), OnceLock::new());
        Self { ready, claims: Mutex::default(), sessions: Mutex::default(), apart, ..self }
    }

    fn error(&self, kind: BackendErrorKind, message: impl Into<String>) -> BackendError {
        BackendError::new(self.name.as_str(), kind, message)
    }

    fn failed(&self, error: SqlError) -> BackendError {
        let (kind, message, source) = error.into_parts();
        // A busy database is as it was; after anything else the tables may be others than those we knew.
        if kind != BackendErrorKind::Busy {
            self.ready.store(false, Ordering::Release);
        }
        let error = self.error(kind, message);
        match source {
            Some(source) => error.with_source(source),
            None => error,
        }
    }

    fn sql(&self) -> Result<Sql<'_, D>, BackendError> {
        match &self.tables {
            Ok(tables) => {
                let apart = *self.apart.get_or_init(|| {
                    let sql = Sql { tables, dialect: &self.dialect, apart: true };
                    self.dialect.stages_in_sessions() && self.client.on_connect(sql.session())
                });
                Ok(Sql { tables, dialect: &self.dialect, apart })
            }
            Err(fault) => Err(self.error(BackendErrorKind::Config, fault.as_str())),
        }
    }

    /// The statements to write with, once it is certain that the tables are there.
    async fn ready(&self) -> Result<Sql<'_, D>, BackendError> {
        let sql = self.sql()?;
        if !self.ready.load(Ordering::Acquire) {
            self.prepare(&sql).await?;
            self.ready.store(true, Ordering::Release);
        }
        Ok(sql)
    }

    /// Makes the tables unless they are there, and refuses those of a newer release.
    async fn prepare(&self, sql: &Sql<'_, D>) -> Result<(), BackendError> {
        let format = || {
            let own = self.dialect.replace(Verb::Format, sql.tables).and_then(|mut statements| statements.pop());
            self.client.query(own.unwrap_or_else(|| sql.format()))
        };
        let format = match format().await {
            Ok(rows) if !rows.is_empty() => rows,
            Err(error) if matches!(error.kind(), BackendErrorKind::Unknown | BackendErrorKind::Busy) => {
                return Err(self.failed(error));
            }
            // No such table, or not all of it: made here, or by whoever is making it at the same time.
            _ => {
                let create = self.dialect.replace(Verb::Create, sql.tables).unwrap_or_else(|| sql.create(None));
                self.client.batch(create).await.map_err(|e| self.failed(e))?;
                format().await.map_err(|e| self.failed(e))?
            }
        };
        self.known_format(&format)
    }

    /// Refuses the tables of a newer release.
    fn known_format(&self, format: &[Row]) -> Result<(), BackendError> {
        let format = format.first().map(|row| row.int(0)).transpose().map_err(|e| self.failed(e))?;
        if format.is_some_and(|format| format > schema::NEWEST) {
            return Err(self.failed(answer::newer()));
        }
        Ok(())
    }

    async fn read(&self, statement: Statement) -> Result<Vec<Row>, BackendError> {
        self.client.query(statement).await.map_err(|error| self.failed(error))
    }

    /// One call: the dialect's own statements for a verb, or the portable ones.
    async fn call(
        &self,
        sql: &Sql<'_, D>,
        verb: Verb<'_>,
        portable: impl FnOnce() -> Vec<Statement>,
    ) -> Result<Vec<Row>, BackendError> {
        let own = self.dialect.replace(verb, sql.tables);
        let one_text =
            sql.apart && own.is_none() && matches!(verb, Verb::Heartbeat(..) | Verb::Finish(_) | Verb::Release(_));
        let rows = self.client.batch(own.unwrap_or_else(portable)).await;
        let rows = rows.and_then(|rows| if one_text { text::rows(rows.first()) } else { Ok(rows) });
        rows.map_err(|error| self.failed(error))
    }

    /// One call that claims.
    async fn call_claim(&self, sql: &Sql<'_, D>, asked: Asked<'_>) -> Result<Vec<Row>, BackendError> {
        if sql.apart {
            let row = self.client.session(vec![self.session_statement(sql, asked)]).await;
            return row.and_then(|row| text::unpacked(row.as_ref(), asked.len())).map_err(|e| self.failed(e));
        }
        self.call(sql, asked.verb(), || self.claim_statements(sql, asked)).await
    }

    /// The statement that claims in a session. Its text is written once for each shape.
    fn session_statement(&self, sql: &Sql<'_, D>, asked: Asked<'_>) -> Statement {
        let (shape, values) = session::sent(asked);
        let mut texts = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        Statement::new(texts.entry(shape).or_insert_with(|| sql.in_session(shape)).clone(), values)
    }

    fn claim_statements(&self, sql: &Sql<'_, D>, asked: Asked<'_>) -> Vec<Statement> {
        let size = padded(asked.len());
        let mut texts = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        let texts = Arc::clone(texts.entry(size).or_insert_with(|| Arc::new(ClaimTexts::new(sql, size))));
        texts.fill(asked.values(), size)
    }
}
