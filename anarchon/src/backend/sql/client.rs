//! What a database client must do for the SQL stores: run one statement, or a few as one step.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use crate::backend::ServerInfo;
use crate::error::{BackendErrorKind, BoxError};

/// A value that goes into a statement, or comes back in a row. Times, counts and flags are integers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value {
    /// An integer.
    Int(i64),
    /// A text.
    Text(String),
    /// No value.
    Null,
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Self::Int(i64::from(value))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Int(i64::from(value))
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// One SQL statement and the values for its `?` marks, in their order.
///
/// A `?` stands for a value wherever it occurs: statements hold no other question mark, not even in a literal or a
/// name. A client that can bind hands the values to the database; one that can only send text replaces the marks with
/// [`SqlDialect::text_of`](super::SqlDialect::text_of), and never quotes a value by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statement {
    /// The text. Equal work has equal text, so a cache of prepared statements pays.
    pub sql: Cow<'static, str>,
    /// The values.
    pub values: Vec<Value>,
}

impl Statement {
    /// A statement with its values.
    #[must_use]
    pub fn new(sql: impl Into<Cow<'static, str>>, values: Vec<Value>) -> Self {
        Self { sql: sql.into(), values }
    }
}

/// One row of an answer; columns are read by their position, from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row(Vec<Value>);

impl Row {
    /// A row of these columns.
    #[must_use]
    pub fn new(columns: Vec<Value>) -> Self {
        Self(columns)
    }

    /// The text of a row that is nothing else.
    pub(super) fn only_text(&self) -> Option<&str> {
        match self.0.as_slice() {
            [Value::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The integer in a column; `None` is SQL's NULL. An integer that came as text is read.
    ///
    /// # Errors
    /// [`BackendErrorKind::Config`] when the column is missing or holds something else.
    pub fn opt_int(&self, column: usize) -> Result<Option<i64>, SqlError> {
        match self.0.get(column) {
            Some(Value::Int(value)) => Ok(Some(*value)),
            Some(Value::Null) => Ok(None),
            Some(Value::Text(text)) => text.parse().map(Some).map_err(|_| unreadable(column, "an integer")),
            None => Err(unreadable(column, "an integer")),
        }
    }

    /// The integer in a column.
    ///
    /// # Errors
    /// [`BackendErrorKind::Config`] when the column is missing, NULL, or holds something else.
    pub fn int(&self, column: usize) -> Result<i64, SqlError> {
        self.opt_int(column)?.ok_or_else(|| unreadable(column, "an integer"))
    }

    /// The text in a column; `None` is SQL's NULL.
    ///
    /// # Errors
    /// [`BackendErrorKind::Config`] when the column is missing or holds something else.
    pub fn opt_text(&self, column: usize) -> Result<Option<&str>, SqlError> {
        match self.0.get(column) {
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(Value::Null) => Ok(None),
            _ => Err(unreadable(column, "a text")),
        }
    }

    /// The text in a column.
    ///
    /// # Errors
    /// [`BackendErrorKind::Config`] when the column is missing, NULL, or holds something else.
    pub fn text(&self, column: usize) -> Result<&str, SqlError> {
        self.opt_text(column)?.ok_or_else(|| unreadable(column, "a text"))
    }
}

fn unreadable(column: usize, wanted: &str) -> SqlError {
    SqlError::new(BackendErrorKind::Config, format!("column {column} of an answer does not hold {wanted}"))
}

/// Why a statement or a batch failed, and what is known about its effect.
#[derive(Debug)]
pub struct SqlError {
    kind: BackendErrorKind,
    message: String,
    source: Option<BoxError>,
}

impl SqlError {
    /// An error of this kind. The message must hold no password.
    pub fn new(kind: BackendErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// Keeps the error that caused this one. Its text must hold no password.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What is known about the effect: `Refused` and `Busy` mean that nothing happened.
    #[must_use]
    pub fn kind(&self) -> BackendErrorKind {
        self.kind
    }

    /// What went wrong.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn into_parts(self) -> (BackendErrorKind, String, Option<BoxError>) {
        (self.kind, self.message, self.source)
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SqlError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|s| s as &(dyn std::error::Error + 'static))
    }
}

/// A database client, as the SQL stores need it.
///
/// # Contract
/// - [`batch`](Self::batch) is ordered and atomic: every statement sees what the ones before it wrote, and either all
///   of them take effect or none does. The client adds what makes it so (`BEGIN IMMEDIATE … COMMIT`, say). The first
///   statement of a batch writes, so a transaction that takes its lock at the first write is fine. Only the rows of the
///   last statement are returned; the others return none.
/// - A call is **one round trip** wherever the database allows it.
/// - A call's future may be dropped at any await. The connection it used is then rolled back or discarded before
///   anything else runs on it, and so it is after an error: half a batch must never be committed by the call after it.
/// - An error says what is known: `Refused` and `Busy` only when nothing happened; `Unknown` when it may have.
///
/// # Example
/// A client for a driver that takes text; this one is sqlx's of SQLite. With it, a dialect and
/// [`SqlBackend`](super::SqlBackend) a store is complete.
///
#[cfg_attr(feature = "sqlite", doc = "```")]
#[cfg_attr(not(feature = "sqlite"), doc = "```ignore")]
/// use anarchon::BackendErrorKind;
/// use anarchon::backend::SqliteDialect;
/// use anarchon::backend::sql::{Row, SqlBackend, SqlClient, SqlDialect, SqlError, Statement, Value};
/// use sqlx::{AssertSqlSafe, Connection, Executor, Row as _, SqliteConnection};
/// use tokio::sync::Mutex;
///
/// struct Client {
///     url: String,
///     dialect: SqliteDialect,
///     connection: Mutex<Option<SqliteConnection>>,
/// }
///
/// impl Client {
///     async fn send(&self, sql: String) -> Result<Vec<Row>, SqlError> {
///         let mut place = self.connection.lock().await;
///         let mut connection = match place.take() {
///             Some(connection) => connection,
///             None => SqliteConnection::connect(&self.url).await.map_err(error)?,
///         };
///         // It goes back only when all is well: after an error, or if this future is dropped, it is closed, which
///         // rolls back what it had begun.
///         let rows = connection.fetch_all(sqlx::raw_sql(AssertSqlSafe(sql))).await.map_err(error)?;
///         *place = Some(connection);
///         // Integers may come as text.
///         let column = |row: &sqlx::sqlite::SqliteRow, at: usize| match row.try_get_unchecked(at) {
///             Ok(Some(text)) => Value::Text(text),
///             _ => Value::Null,
///         };
///         Ok(rows.iter().map(|row| Row::new((0..row.len()).map(|at| column(row, at)).collect())).collect())
///     }
/// }
///
/// impl SqlClient for Client {
///     async fn query(&self, statement: Statement) -> Result<Vec<Row>, SqlError> {
///         self.send(self.dialect.text_of(&statement)).await
///     }
///
///     async fn batch(&self, statements: Vec<Statement>) -> Result<Vec<Row>, SqlError> {
///         let texts: Vec<String> = statements.iter().map(|statement| self.dialect.text_of(statement)).collect();
///         self.send(format!("BEGIN IMMEDIATE; {}; COMMIT", texts.join("; "))).await
///     }
/// }
///
/// /// What is known about the effect: `Unknown` is always true.
/// fn error(error: sqlx::Error) -> SqlError {
///     let kind = match &error {
///         sqlx::Error::Database(error) if error.code().is_some_and(|code| code == "5") => BackendErrorKind::Busy,
///         sqlx::Error::Database(_) => BackendErrorKind::Refused,
///         _ => BackendErrorKind::Unknown,
///     };
///     SqlError::new(kind, error.to_string())
/// }
///
/// # use anarchon::{Backend, LeaseBackend, JobName, InstanceId, Slot, Token};
/// # use anarchon::run::{ClaimOutcome, RunClaim};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let dialect = SqliteDialect::new().without_sessions();
/// let url = "sqlite:file:example?mode=memory&cache=shared".to_owned();
/// let client = Client { url, dialect: dialect.clone(), connection: Mutex::new(None) };
/// let backend = SqlBackend::new("mine", client, dialect);
/// # // A connection that lives on keeps the database in memory.
/// # let _kept = SqliteConnection::connect("sqlite:file:example?mode=memory&cache=shared").await?;
/// # backend.connect().await?;
/// # let now = backend.clock().await?.unwrap_or_default();
/// # let (job, instance) = (JobName::new("a")?, InstanceId::new("one")?);
/// # let claim = RunClaim::new(job, Slot::from_ms(now), Token::random(), instance);
/// # assert!(matches!(backend.claim(&claim).await?.value, ClaimOutcome::Won { attempt: 1, .. }));
/// # Ok(())
/// # }
/// ```
pub trait SqlClient: Send + Sync + 'static {
    /// Runs one statement by itself and returns its rows.
    fn query(&self, statement: Statement) -> impl Future<Output = Result<Vec<Row>, SqlError>> + Send;

    /// Runs statements in order as one atomic step, and returns the rows of the last one.
    fn batch(&self, statements: Vec<Statement>) -> impl Future<Output = Result<Vec<Row>, SqlError>> + Send;

    /// Is told, before the first call, what each new connection has to run before anything else: temporary tables, views
    /// and triggers. Returns whether the client does that, and runs every call on such a connection; if not, there are
    /// other ways.
    fn on_connect(&self, statements: Vec<Statement>) -> bool {
        let _ = statements;
        false
    }

    /// Runs statements in order on one connection that has run the statements of [`on_connect`](Self::on_connect), and
    /// returns the one row of the last one; the others return none. Only one of them touches the database, so no
    /// transaction is needed around them; after an error, or when the call is dropped, the connection is discarded.
    fn session(&self, statements: Vec<Statement>) -> impl Future<Output = Result<Option<Row>, SqlError>> + Send {
        async { Ok(self.batch(statements).await?.pop()) }
    }

    /// Where the database will be, for people, while it is not there and the first call would make it; asked before
    /// anything else by those who only read. Default: `None`, for servers.
    fn not_made(&self) -> Option<String> {
        None
    }

    /// Connects, unless that is done already, and checks the server. Called before the tables are looked at.
    fn server(&self) -> impl Future<Output = Result<ServerInfo, SqlError>> + Send {
        async { Ok(ServerInfo::new("a SQL database")) }
    }

    /// Closes what the client opened itself. A later call may open it again.
    fn close(&self) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// A client that is shared.
impl<C: SqlClient> SqlClient for Arc<C> {
    async fn query(&self, statement: Statement) -> Result<Vec<Row>, SqlError> {
        (**self).query(statement).await
    }

    async fn batch(&self, statements: Vec<Statement>) -> Result<Vec<Row>, SqlError> {
        (**self).batch(statements).await
    }

    fn on_connect(&self, statements: Vec<Statement>) -> bool {
        (**self).on_connect(statements)
    }

    async fn session(&self, statements: Vec<Statement>) -> Result<Option<Row>, SqlError> {
        (**self).session(statements).await
    }

    fn not_made(&self) -> Option<String> {
        (**self).not_made()
    }

    async fn server(&self) -> Result<ServerInfo, SqlError> {
        (**self).server().await
    }

    async fn close(&self) {
        (**self).close().await;
    }
}
