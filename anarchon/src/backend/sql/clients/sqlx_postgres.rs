//! PostgreSQL through sqlx: each call is one message of the simple protocol, on a connection of our own.
//!
//! Nothing is prepared and no state is left in a session, since behind a pooler the next message may reach another
//! session, and the answer to a prepared statement may be another client's. A message is one transaction by itself, so a
//! client that dies after sending it holds no lock.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use sqlx::postgres::{PgConnectOptions, PgRow};
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, PgConnection, PgPool, Row as _, TypeInfo as _,
    ValueRef as _,
};
use tokio::sync::Semaphore;

use super::postgres::{CONNECTIONS, meaning, message, server};
use crate::backend::ServerInfo;
use crate::backend::sql::{Row, SqlClient, SqlError, Statement, Value};
use crate::error::BackendErrorKind;

/// What goes before that on a connection of the application: in a transaction that has done something it is an error,
/// so that no claim becomes part of it.
const NOT_WITHIN: &str = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; ";

/// A PostgreSQL server, as the SQL stores need it: by its address, or by a connection of the application.
///
/// A call runs on one of a few connections of its own, opened when they are needed. After an error, and when a call is
/// dropped, its connection is thrown away.
pub struct SqlxPostgres {
    source: Source,
    /// Open, and free.
    idle: Mutex<Vec<PgConnection>>,
    permits: Semaphore,
}

/// Where the server is.
enum Source {
    /// Its address.
    Address(Box<PgConnectOptions>),
    /// A connection that the application has.
    Connection(Arc<tokio::sync::Mutex<PgConnection>>),
    /// An address that cannot be used.
    Faulty(String),
}

impl fmt::Debug for SqlxPostgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlxPostgres").field("place", &self.place()).finish_non_exhaustive()
    }
}

impl SqlxPostgres {
    /// The server at a URL, `postgres://user:password@host:port/database`. What it does not say is taken from the `PG…`
    /// variables of the environment.
    #[must_use]
    pub fn at(url: &str) -> Self {
        let scheme = url.starts_with("postgres:") || url.starts_with("postgresql:");
        match url.parse::<PgConnectOptions>() {
            Ok(options) if scheme => Self::with_options(options),
            Ok(_) => Self::on(Source::Faulty("the URL does not begin with `postgres:`".to_owned())),
            Err(error) => Self::on(Source::Faulty(format!("the URL is none of PostgreSQL: {}", reason(&error)))),
        }
    }

    /// The server that these options lead to.
    #[must_use]
    pub fn with_options(options: PgConnectOptions) -> Self {
        // Poolers refuse what they do not know; and digits of floats are none of ours.
        let options = options.extra_float_digits(None).statement_cache_capacity(0).disable_statement_logging();
        Self::on(Source::Address(Box::new(options)))
    }

    /// The server of a pool. Only its address and settings are taken; the pool itself is neither used nor closed.
    #[must_use]
    pub fn from_pool(pool: &PgPool) -> Self {
        Self::with_options(pool.connect_options().as_ref().clone())
    }

    /// A connection of the application, on which our statements queue up. It is never closed by us, and must not be in a
    /// transaction when its lock is given up.
    #[must_use]
    pub fn from_connection(connection: Arc<tokio::sync::Mutex<PgConnection>>) -> Self {
        Self::on(Source::Connection(connection))
    }

    fn on(source: Source) -> Self {
        Self { source, idle: Mutex::default(), permits: Semaphore::new(CONNECTIONS) }
    }

    /// The place, for people: without the user and the password.
    fn place(&self) -> String {
        match &self.source {
            Source::Address(options) => {
                let database = options.get_database().unwrap_or(options.get_username());
                match options.get_socket() {
                    Some(socket) => format!("{}/{database}", socket.display()),
                    None => format!("{}:{}/{database}", options.get_host(), options.get_port()),
                }
            }
            Source::Connection(_) => "the application's connection".to_owned(),
            Source::Faulty(_) => "nowhere".to_owned(),
        }
    }

    fn take_idle(&self) -> Option<PgConnection> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn all_idle(&self) -> Vec<PgConnection> {
        std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn run(&self, statements: &[Statement]) -> Result<Vec<Row>, SqlError> {
        let mut text = message(statements);
        if let Source::Connection(_) = &self.source {
            text.insert_str(0, NOT_WITHIN);
        }
        let rows = match &self.source {
            Source::Address(options) => self.on_ours(options, text).await?,
            Source::Connection(connection) => {
                let mut connection = connection.lock().await;
                send(&mut connection, text).await.map_err(|error| self.classify(error))?
            }
            Source::Faulty(fault) => return Err(SqlError::new(BackendErrorKind::Config, fault.as_str())),
        };
        rows.iter().map(|row| read(row).map_err(|error| self.classify(error))).collect()
    }

    /// Runs a text on a connection of ours. That is taken out of its place and put back only when all is well: if this
    /// future is dropped, or fails, the connection goes with it.
    async fn on_ours(&self, options: &PgConnectOptions, text: String) -> Result<Vec<PgRow>, SqlError> {
        let closed = |_| SqlError::new(BackendErrorKind::Config, "the connections are closed for good");
        let _permit = self.permits.acquire().await.map_err(closed)?;
        let mut connection = match self.take_idle() {
            Some(connection) => connection,
            None => options.connect().await.map_err(|error| self.classify(error))?,
        };
        match send(&mut connection, text).await {
            Ok(rows) => {
                self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
                Ok(rows)
            }
            Err(error) => {
                let error = self.classify(error);
                if error.kind() == BackendErrorKind::Unknown {
                    // A server that has gone took the others with it.
                    drop(self.all_idle());
                }
                Err(error)
            }
        }
    }

    fn classify(&self, error: sqlx::Error) -> SqlError {
        use BackendErrorKind::{Config, Refused, Unknown};
        let code = error.as_database_error().and_then(|database| database.code()).unwrap_or_default().into_owned();
        let (kind, hint) = meaning(&code).unwrap_or(match &error {
            sqlx::Error::Configuration(_) => (Config, "the options do not fit"),
            sqlx::Error::Encode(_) => (Refused, "a value does not fit"),
            sqlx::Error::Tls(error) => (Config, super::no_tls(error)),
            sqlx::Error::Io(error) if super::is_distrust(error) => (Config, "the server is not trusted"),
            _ => (Unknown, "the connection was lost"),
        });
        SqlError::new(kind, format!("{}: {hint}: {}", self.place(), reason(&error))).with_source(error)
    }
}

/// One message of the simple protocol.
async fn send(connection: &mut PgConnection, text: String) -> Result<Vec<PgRow>, sqlx::Error> {
    connection.fetch_all(sqlx::raw_sql(AssertSqlSafe(text))).await
}

/// An error's own words.
fn reason(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Database(database) => database.message().to_owned(),
        sqlx::Error::Configuration(inner) => inner.to_string(),
        other => other.to_string(),
    }
}

impl SqlClient for SqlxPostgres {
    async fn query(&self, statement: Statement) -> Result<Vec<Row>, SqlError> {
        self.run(&[statement]).await
    }

    async fn batch(&self, statements: Vec<Statement>) -> Result<Vec<Row>, SqlError> {
        self.run(&statements).await
    }

    async fn server(&self) -> Result<ServerInfo, SqlError> {
        let mut info = server(self, &self.place()).await?;
        if let Source::Connection(_) = self.source {
            info.warnings.push(
                "one connection of the application is used for everything: heartbeats wait for its other statements, \
                 and for its runtime, which can cost leases; a pool, of which only the address is taken, does not"
                    .to_owned(),
            );
        }
        Ok(info)
    }

    async fn close(&self) {
        for connection in self.all_idle() {
            // Errors at the end change nothing: there is nothing under way.
            drop(connection.close().await);
        }
    }
}

fn read(row: &PgRow) -> Result<Row, sqlx::Error> {
    let column = |index: usize| -> Result<Value, sqlx::Error> {
        let raw = row.try_get_raw(index)?;
        if raw.is_null() {
            return Ok(Value::Null);
        }
        let integer = matches!(raw.type_info().name(), "INT8" | "INT4" | "INT2");
        let text = raw.as_str().map_err(sqlx::Error::Decode)?;
        match text.parse() {
            Ok(int) if integer => Ok(Value::Int(int)),
            _ => Ok(Value::Text(text.to_owned())),
        }
    };
    (0..row.len()).map(column).collect::<Result<Vec<_>, _>>().map(Row::new)
}
