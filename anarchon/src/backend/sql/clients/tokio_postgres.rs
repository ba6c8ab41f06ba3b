//! PostgreSQL through tokio-postgres: each call is one message of the simple protocol, on a connection of our own.
//!
//! The same messages go out as through sqlx, and for the same reasons. What differs is that a connection is worked on by
//! a task: it is started where the call runs, and ended with the connection.

use std::error::Error as _;
use std::fmt;
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

use deadpool::managed::Manager as _;
use deadpool_postgres::{ClientWrapper, Pool};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config, Error, NoTls, SimpleQueryMessage, SimpleQueryRow};

use super::postgres::{CONNECTIONS, meaning, message, server};
use crate::backend::ServerInfo;
use crate::backend::sql::{Row, SqlClient, SqlError, Statement, Value};
use crate::error::BackendErrorKind;

/// A PostgreSQL server, as the SQL stores need it: by its address, or by the manager of an application's pool.
///
/// A call runs on one of a few connections of its own, opened when they are needed. After an error, and when a call is
/// dropped, its connection is thrown away.
pub struct TokioPostgres {
    source: Source,
    /// Open, and free.
    idle: Mutex<Vec<Session>>,
    permits: Semaphore,
}

/// Where connections come from.
enum Source {
    Address(Box<Config>),
    Pool(Pool),
}

/// A connection of ours, and the task that works on it, which ends with it.
enum Session {
    Ours(Client, Task),
    Made(Made),
}

/// A connection that a pool's manager has made, but none of the pool's.
struct Made {
    client: ClientWrapper,
    pool: Pool,
}

impl Drop for Made {
    fn drop(&mut self) {
        // The manager keeps a list of what it has made.
        self.pool.manager().detach(&mut self.client);
    }
}

/// A task that does not outlive this.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Deref for Session {
    type Target = Client;

    fn deref(&self) -> &Client {
        match self {
            Self::Ours(client, _) => client,
            Self::Made(made) => &made.client,
        }
    }
}

impl fmt::Debug for TokioPostgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokioPostgres").field("place", &self.place()).finish_non_exhaustive()
    }
}

impl TokioPostgres {
    /// The server that these settings lead to, without TLS: where they require it, each call fails. For TLS there is
    /// [`from_pool`](Self::from_pool).
    #[must_use]
    pub fn with_config(config: Config) -> Self {
        Self::on(Source::Address(Box::new(config)))
    }

    /// The server of a pool. Only the pool's manager is used, for connections of our own, made as the pool's are, with
    /// its TLS. They do not count among the pool's, nothing waits for those, and hooks of the pool are not run. The pool
    /// is kept, but never closed by us; closing it does not end our connections.
    #[must_use]
    pub fn from_pool(pool: &Pool) -> Self {
        Self::on(Source::Pool(pool.clone()))
    }

    fn on(source: Source) -> Self {
        Self { source, idle: Mutex::default(), permits: Semaphore::new(CONNECTIONS) }
    }

    /// The place, for people: without the user and the password.
    fn place(&self) -> String {
        let Source::Address(config) = &self.source else { return "the server of the application's pool".to_owned() };
        let host = match (config.get_hosts().first(), config.get_hostaddrs().first()) {
            (Some(Host::Tcp(host)), _) => host.clone(),
            #[cfg(unix)]
            (Some(Host::Unix(folder)), _) => folder.display().to_string(),
            (None, Some(address)) => address.to_string(),
            (None, None) => "nowhere".to_owned(),
        };
        let port = config.get_ports().first().unwrap_or(&5432);
        match config.get_dbname().or(config.get_user()) {
            Some(database) => format!("{host}:{port}/{database}"),
            None => format!("{host}:{port}"),
        }
    }

    fn all_idle(&self) -> Vec<Session> {
        std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A connection whose task has not ended.
    fn take_idle(&self) -> Option<Session> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|session| !session.is_closed());
        idle.pop()
    }

    async fn open(&self) -> Result<Session, Error> {
        match &self.source {
            Source::Address(config) => {
                let (client, connection) = config.connect(NoTls).await?;
                let work = async {
                    // The call that is under way is told; without one nobody misses it.
                    drop(connection.await);
                };
                Ok(Session::Ours(client, Task(tokio::spawn(work))))
            }
            Source::Pool(pool) => {
                let client = pool.manager().create().await?;
                Ok(Session::Made(Made { client, pool: pool.clone() }))
            }
        }
    }

    /// Runs a text on a connection of ours. That is taken out of its place and put back only when all is well: if this
    /// future is dropped, or fails, the connection goes with it.
    async fn run(&self, statements: &[Statement]) -> Result<Vec<Row>, SqlError> {
        let text = message(statements);
        let closed = |_| SqlError::new(BackendErrorKind::Config, "the connections are closed for good");
        let _permit = self.permits.acquire().await.map_err(closed)?;
        let session = match self.take_idle() {
            Some(session) => session,
            None => self.open().await.map_err(|error| self.classify(error, true))?,
        };
        match session.simple_query(&text).await {
            Ok(messages) => {
                self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(session);
                Ok(messages.iter().filter_map(rows_only).map(read).collect())
            }
            Err(error) => {
                let error = self.classify(error, false);
                if error.kind() == BackendErrorKind::Unknown {
                    // A server that has gone took the others with it.
                    drop(self.all_idle());
                }
                Err(error)
            }
        }
    }

    fn classify(&self, error: Error, connecting: bool) -> SqlError {
        use BackendErrorKind::{Config, Unknown};
        let code = error.code().map_or("", |code| code.code());
        let (kind, hint) = meaning(code).unwrap_or(match error.source() {
            // Not the network: settings that contradict each other, TLS that is not there, no password.
            Some(source) if connecting && !source.is::<std::io::Error>() => (Config, "no connection can be made"),
            _ => (Unknown, "the connection was lost"),
        });
        SqlError::new(kind, format!("{}: {hint}: {}", self.place(), reason(&error))).with_source(error)
    }
}

/// An error's own words.
fn reason(error: &Error) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(database), _) => database.message().to_owned(),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

fn rows_only(message: &SimpleQueryMessage) -> Option<&SimpleQueryRow> {
    match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    }
}

/// Everything comes as text, and integers are read from it when they are asked for.
fn read(row: &SimpleQueryRow) -> Row {
    Row::new((0..row.len()).map(|column| row.get(column).into()).collect::<Vec<Value>>())
}

impl SqlClient for TokioPostgres {
    async fn query(&self, statement: Statement) -> Result<Vec<Row>, SqlError> {
        self.run(&[statement]).await
    }

    async fn batch(&self, statements: Vec<Statement>) -> Result<Vec<Row>, SqlError> {
        self.run(&statements).await
    }

    async fn server(&self) -> Result<ServerInfo, SqlError> {
        server(self, &self.place()).await
    }

    async fn close(&self) {
        for session in self.all_idle() {
            if let Session::Ours(client, mut task) = session {
                drop(client);
                // It takes leave of the server; errors at the end change nothing.
                drop((&mut task.0).await);
            }
        }
    }
}
