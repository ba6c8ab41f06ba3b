//! libSQL through its own crate: a server by HTTP, or a database that the application has.

use std::sync::Arc;
use std::time::Duration;

use libsql::{BatchRows, Builder, Connection, Database};
use tokio::sync::{Mutex, Semaphore};

use crate::backend::sql::{Row, SqlClient, SqlDialect, SqlError, Statement, Value};
use crate::backend::{NO_TLS, ServerInfo};
use crate::error::BackendErrorKind;

/// How long a call may be unanswered before the next one is sent beside it, unless it is set.
const SILENCE: Duration = Duration::from_secs(8);

/// How many requests there are at most, with those that were left to themselves.
const UNANSWERED: usize = 8;

/// When a request is given up for good: no server is there any more, and no operating system says so.
const LOST: Duration = Duration::from_secs(15 * 60);

/// A libSQL database, as the SQL stores need it.
///
/// Every call is one request. It is sent by a task of its own that is never dropped, whatever becomes of the caller, and
/// one at a time: the server leaves behind threads and locks when requests are cut off in flight. Only a request that
/// nobody answers for [a while](Self::silence) is left to itself, so that a server that was frozen, or a path that was
/// lost, does not keep the later ones waiting for ever. At most eight are at once: then calls fail with
/// [`Unknown`](BackendErrorKind::Unknown) until one of them is answered, breaks, or is 15 min old.
///
/// There are no bound values in a batch, so statements are sent as text by the dialect's
/// [`literal`](SqlDialect::literal).
pub struct LibsqlClient<D> {
    state: Arc<State>,
    dialect: D,
    silence: Duration,
}

struct State {
    place: String,
    source: Result<Source, String>,
    /// Held by the task whose request is under way.
    open: Arc<Mutex<Option<Connection>>>,
    /// One for each request, for as long as its task lives.
    free: Arc<Semaphore>,
}

enum Source {
    Url { url: String, token: String },
    Database(Arc<Database>),
}

impl<D> std::fmt::Debug for LibsqlClient<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LibsqlClient").field("place", &self.state.place).finish_non_exhaustive()
    }
}

impl<D> LibsqlClient<D> {
    /// The server at a URL: `libsql://` and `https://` with TLS, `http://` without. An empty token is none.
    #[must_use]
    pub fn at(url: &str, token: &str, dialect: D) -> Self {
        let place = host(url);
        Self::on(place, checked(url, token), dialect)
    }

    /// A remote database that the application has opened. Connections of our own are made by it. Another kind is refused
    /// with [`Config`](BackendErrorKind::Config) when it is connected to, as its batches return no rows.
    #[must_use]
    pub fn from_database(database: impl Into<Arc<Database>>, dialect: D) -> Self {
        Self::on("the application's database".to_owned(), Ok(Source::Database(database.into())), dialect)
    }

    fn on(place: String, source: Result<Source, String>, dialect: D) -> Self {
        let free = Arc::new(Semaphore::new(UNANSWERED));
        Self { state: Arc::new(State { place, source, open: Arc::default(), free }), dialect, silence: SILENCE }
    }

    /// How long a call may be unanswered before the next one is sent beside it, on a connection of its own: 8 s unless
    /// set.
    #[must_use]
    pub fn silence(self, silence: Duration) -> Self {
        Self { silence, ..self }
    }

    /// Sends a text, in a task of its own.
    async fn send(&self, sql: String, transaction: bool) -> Result<Vec<Row>, SqlError> {
        let mut turn = Arc::clone(&self.state.open).lock_owned().await;
        let (state, silence) = (Arc::clone(&self.state), self.silence);
        let permit = Arc::clone(&state.free)
            .try_acquire_owned()
            .map_err(|_| state.error(BackendErrorKind::Unknown, "too many requests are unanswered"))?;
        let call = tokio::spawn(async move {
            let connection = match turn.take() {
                Some(connection) => connection,
                None => state.connect().await?,
            };
            let (sent, asking) = (Arc::clone(&state), connection.clone());
            let mut asked = tokio::spawn(async move {
                let answer = tokio::time::timeout(LOST, sent.ask(&asking, &sql, transaction)).await;
                drop(permit);
                answer.unwrap_or_else(|_| Err(sent.error(BackendErrorKind::Unknown, "no answer at all")))
            });
            let Ok(answer) = tokio::time::timeout(silence, &mut asked).await else {
                // It goes on by itself; who comes next has another connection.
                return Err(state.error(BackendErrorKind::Unknown, format!("no answer within {silence:?}")));
            };
            let answer =
                answer.unwrap_or_else(|_| Err(state.error(BackendErrorKind::Unknown, "the runtime has ended")));
            // Where the server has answered, the connection is whole. What it began is undone: no stream goes on.
            let answered =
                |error: &SqlError| matches!(error.kind(), BackendErrorKind::Refused | BackendErrorKind::Busy);
            if answer.as_ref().err().is_none_or(answered) {
                connection.reset().await;
                *turn = Some(connection);
            }
            answer
        });
        call.await.unwrap_or_else(|_| Err(self.state.error(BackendErrorKind::Unknown, "the runtime has ended")))
    }
}

impl State {
    fn error(&self, kind: BackendErrorKind, what: impl std::fmt::Display) -> SqlError {
        SqlError::new(kind, format!("{}: {what}", self.place))
    }

    async fn connect(&self) -> Result<Connection, SqlError> {
        let database = match &self.source {
            Ok(Source::Database(database)) => return database.connect().map_err(|error| self.classify(error)),
            Ok(Source::Url { url, token }) => {
                let remote = Builder::new_remote(url.clone(), token.clone());
                let remote = if plain(url) {
                    let mut http = hyper::client::HttpConnector::new();
                    http.set_nodelay(true);
                    http.set_connect_timeout(Some(Duration::from_secs(10)));
                    remote.connector(http)
                } else {
                    remote
                };
                remote.build().await.map_err(|error| self.classify(error))?
            }
            Err(fault) => return Err(SqlError::new(BackendErrorKind::Config, fault.as_str())),
        };
        database.connect().map_err(|error| self.classify(error))
    }

    /// One request. A batch that fails is undone by the server before it answers.
    async fn ask(&self, connection: &Connection, sql: &str, transaction: bool) -> Result<Vec<Row>, SqlError> {
        let asked = if transaction {
            connection.execute_transactional_batch(sql).await
        } else {
            connection.execute_batch(sql).await
        };
        let rows = asked.map_err(|error| self.classify(error))?;
        last_rows(rows).await.map_err(|error| self.classify(error))
    }

    fn classify(&self, error: libsql::Error) -> SqlError {
        use BackendErrorKind::{Busy, Config, Refused, Unknown};
        let text = error.to_string();
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        let (kind, hint) = match &error {
            libsql::Error::SqliteFailure(code, _) if matches!(code & 0xff, 5 | 6) => (Busy, "another writer has it"),
            libsql::Error::SqliteFailure(code, _) if matches!(code & 0xff, 7 | 9 | 10) => {
                (Unknown, "the call did not get through")
            }
            libsql::Error::SqliteFailure(..)
            | libsql::Error::Sqlite3SyntaxError(..)
            | libsql::Error::Sqlite3UnsupportedStatement
            | libsql::Error::Sqlite3ParserError(_)
            | libsql::Error::TransactionalBatchError(_) => (Refused, "the statement was refused"),
            libsql::Error::InvalidTlsConfiguration(_) => (Config, "TLS cannot be used"),
            // What the server says comes as text alone.
            _ if has(&["status=401", "status=403", "AUTH_"]) => (Config, "access was denied"),
            _ if has(&["status=404"]) => (Config, "there is no such database"),
            _ if has(&["SQLITE_BUSY", "database is locked", "status=429"]) => (Busy, "another writer has it"),
            _ if has(&["SQLITE_", "SQLite error", "SQL_PARSE_ERROR", "BLOCKED"]) => {
                (Refused, "the statement was refused")
            }
            _ => (Unknown, "the call did not get through"),
        };
        self.error(kind, format_args!("{hint}: {text}")).with_source(error)
    }
}

/// The rows of the last statement.
async fn last_rows(mut all: BatchRows) -> Result<Vec<Row>, libsql::Error> {
    let mut last = None;
    while let Some(rows) = all.next_stmt_row() {
        last = rows;
    }
    let mut read = Vec::new();
    let Some(mut rows) = last else { return Ok(read) };
    while let Some(row) = rows.next().await? {
        let column = |index| match row.get_value(index)? {
            libsql::Value::Null => Ok(Value::Null),
            libsql::Value::Integer(int) => Ok(Value::Int(int)),
            libsql::Value::Text(text) => Ok(Value::Text(text)),
            libsql::Value::Real(_) | libsql::Value::Blob(_) => Err(libsql::Error::InvalidColumnType),
        };
        read.push(Row::new((0..row.column_count()).map(column).collect::<Result<_, _>>()?));
    }
    Ok(read)
}

impl<D: SqlDialect> SqlClient for LibsqlClient<D> {
    async fn query(&self, statement: Statement) -> Result<Vec<Row>, SqlError> {
        self.send(self.dialect.text_of(&statement), false).await
    }

    async fn batch(&self, statements: Vec<Statement>) -> Result<Vec<Row>, SqlError> {
        let texts: Vec<String> = statements.iter().map(|statement| self.dialect.text_of(statement)).collect();
        self.send(texts.join("; "), true).await
    }

    async fn server(&self) -> Result<ServerInfo, SqlError> {
        // As a batch: local databases, and replicas that sync, do not return what one reads.
        let rows = self.batch(vec![Statement::new("SELECT sqlite_version()", Vec::new())]).await?;
        let row = rows.first().ok_or_else(|| {
            let what = "this kind of libSQL database returns no rows from a batch; use a remote one";
            self.state.error(BackendErrorKind::Config, what)
        })?;
        Ok(ServerInfo::new(format!("libSQL (SQLite {}) at {}", row.text(0)?, self.state.place)))
    }

    /// Waits for the request that is under way.
    async fn close(&self) {
        self.state.open.lock().await.take();
    }
}

/// The URL without what is secret: its parameters, and what stands before an `@`.
fn host(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{}", path.trim_end_matches('/'))
}

fn plain(url: &str) -> bool {
    url.starts_with("http://")
}

fn checked(url: &str, token: &str) -> Result<Source, String> {
    let (scheme, rest) = url.split_once("://").ok_or("the URL begins with `libsql://`, `https://` or `http://`")?;
    match scheme {
        "http" => {}
        "libsql" | "https" if cfg!(feature = "tls") => {}
        "libsql" | "https" => return Err(NO_TLS.to_owned()),
        _ => return Err("the URL begins with `libsql://`, `https://` or `http://`".to_owned()),
    }
    let (address, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    if address.split('/').next().is_none_or(str::is_empty) {
        return Err("the URL names no host; write `libsql://host` or `http://host:port`".to_owned());
    }
    if address.contains('@') {
        return Err("the URL holds a user; a libSQL server is given a token instead".to_owned());
    }
    // As other clients have it.
    let (tokens, others): (Vec<&str>, Vec<&str>) =
        parameters.split('&').filter(|pair| !pair.is_empty()).partition(|pair| pair.starts_with("authToken="));
    let token = tokens.last().and_then(|pair| pair.strip_prefix("authToken=")).unwrap_or(token);
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("the token holds what no token has: blanks, or characters that are not ASCII".to_owned());
    }
    let query = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
    Ok(Source::Url { url: format!("{scheme}://{address}{query}"), token: token.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_in_the_url_is_taken_and_shown_nowhere() {
        let client = LibsqlClient::at("http://h:1/?a=b&authToken=secret", "other", ());
        assert!(!format!("{client:?}").contains("secret"));
        assert_eq!(client.state.place, "http://h:1");
        let Ok(Source::Url { url, token }) = &client.state.source else { panic!("it is fine") };
        assert_eq!((url.as_str(), token.as_str()), ("http://h:1/?a=b", "secret"));
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said() {
        for (url, word) in [
            ("h:1", "begins with"),
            ("ftp://h", "begins with"),
            ("http://", "no host"),
            ("http://u:secret@h", "token"),
            ("http://h?authToken=a b", "no token has"),
        ] {
            let client = LibsqlClient::at(url, "", ());
            let fault = client.state.source.as_ref().err().unwrap();
            assert!(fault.contains(word) && !fault.contains("secret"), "{url}: {fault}");
            assert!(!client.state.place.contains("secret"));
        }
        let needs = LibsqlClient::at("libsql://h", "", ());
        assert_eq!(needs.state.source.is_err(), !cfg!(feature = "tls"));
    }
}
