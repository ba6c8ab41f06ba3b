//! MySQL and MariaDB through sqlx: a few connections of our own, one message a call.

use std::str::FromStr as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlRow};
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, MySqlPool, Row as _, TypeInfo as _,
    ValueRef as _,
};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::backend::ServerInfo;
use crate::backend::sql::{Row, SqlClient, SqlDialect, SqlError, Statement, Value};
use crate::error::BackendErrorKind;

/// How many calls are under way at once at most, each on a connection of its own: a claim that waits for a lock must not
/// keep a heartbeat waiting.
const AT_ONCE: usize = 4;
/// How long a statement waits for a lock before the call is answered "busy", in s.
const LOCK_WAIT: u32 = 4;
/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);

/// A connection that was not used for so long is not used again: what lies between may have forgotten it.
const KEEP: Duration = Duration::from_secs(60);

/// The head of each message that writes. A transaction reads what is committed when each of its statements begins; said
/// each time, so that nothing between us and the server can have changed it.
const BEGIN: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION; ";

/// A MySQL or MariaDB database, as the SQL stores need it, by its address.
///
/// Statements are sent as text, a whole batch in one message: a client that dies after sending holds no lock, since the
/// server goes on to the end. Values become text by the dialect's [`literal`](SqlDialect::literal).
///
/// After an error the transaction is rolled back before anything else runs on its connection, or else the next
/// `START TRANSACTION` would commit its first half; a connection whose call is dropped, or on which that fails, is thrown
/// away, and the server rolls back.
pub struct SqlxMySql<D> {
    source: Result<Box<MySqlConnectOptions>, String>,
    dialect: D,
    turns: Semaphore,
    idle: Mutex<Vec<(Instant, MySqlConnection)>>,
}

impl<D> std::fmt::Debug for SqlxMySql<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqlxMySql").field("place", &self.place()).finish_non_exhaustive()
    }
}

impl<D> SqlxMySql<D> {
    /// The database at a URL, which begins with `mysql:` or `mariadb:` and names a database.
    #[must_use]
    pub fn at(url: &str, dialect: D) -> Self {
        Self::on(options(url), dialect)
    }

    /// The database of a pool: its address is taken, and connections of our own are opened to it. The pool is never used.
    #[must_use]
    pub fn from_pool(pool: &MySqlPool, dialect: D) -> Self {
        Self::on(Ok(pool.connect_options().as_ref().clone()), dialect)
    }

    fn on(source: Result<MySqlConnectOptions, String>, dialect: D) -> Self {
        let source = source.and_then(|options| match options.get_database() {
            Some(name) if !name.is_empty() => Ok(Box::new(options)),
            _ => Err("the URL names no database; write `mysql://user:password@host/database`".to_owned()),
        });
        Self { source, dialect, turns: Semaphore::new(AT_ONCE), idle: Mutex::default() }
    }

    /// The place, for people: no user, and no password.
    fn place(&self) -> String {
        match &self.source {
            Ok(options) => {
                let name = options.get_database().unwrap_or_default();
                match options.get_socket() {
                    Some(socket) => format!("{}/{name}", socket.display()),
                    None => format!("{}:{}/{name}", options.get_host(), options.get_port()),
                }
            }
            Err(_) => "nowhere".to_owned(),
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<(Instant, MySqlConnection)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A turn, and a connection that has no transaction open.
    async fn connection(&self) -> Result<(SemaphorePermit<'_>, MySqlConnection), SqlError> {
        let options = self.source.as_ref().map_err(|fault| SqlError::new(BackendErrorKind::Config, fault.as_str()))?;
        let closed = |_| SqlError::new(BackendErrorKind::Config, "the client is closed");
        let turn = self.turns.acquire().await.map_err(closed)?;
        let kept = self.idle().pop();
        match kept {
            Some((used, connection)) if used.elapsed() < KEEP => return Ok((turn, connection)),
            // The others were used before it.
            Some(_) => self.idle().clear(),
            None => {}
        }
        let options = options.as_ref().clone().disable_statement_logging();
        let connect = async {
            let mut connection = options.connect().await?;
            // Values that do not fit are refused, not cut; the clock is read in UTC; nobody is waited for too long; a
            // statement that is sent alone leaves no transaction open, whatever the server's default.
            let session = format!(
                "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00', \
                 innodb_lock_wait_timeout = {LOCK_WAIT}, lock_wait_timeout = {LOCK_WAIT}, autocommit = 1"
            );
            connection.execute(sqlx::raw_sql(AssertSqlSafe(session))).await?;
            Ok(connection)
        };
        match tokio::time::timeout(CONNECT, connect).await {
            Ok(Ok(connection)) => Ok((turn, connection)),
            Ok(Err(error)) => Err(self.classify(error)),
            Err(_) => Err(SqlError::new(
                BackendErrorKind::Unknown,
                format!("{}: no connection within {} s", self.place(), CONNECT.as_secs()),
            )),
        }
    }

    /// Sends one message. The connection is out of its place meanwhile, so it goes if this future is dropped.
    async fn send(&self, sql: String, writes: bool) -> Result<Vec<Row>, SqlError> {
        let (turn, mut connection) = self.connection().await?;
        let sent = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(&mut connection).await;
        let fit = match &sent {
            Ok(_) => true,
            // The server answered, so the connection is whole; what the message began is still open.
            Err(sqlx::Error::Database(error)) if writes && !moved(error.as_ref()) => {
                connection.execute(sqlx::raw_sql("ROLLBACK")).await.is_ok()
            }
            Err(_) => false,
        };
        if fit {
            self.idle().push((Instant::now(), connection));
        } else {
            // What became of this one became of the others, most likely.
            self.idle().clear();
        }
        drop(turn);
        let rows = sent.map_err(|error| self.classify(error))?;
        rows.iter().map(row).collect()
    }

    fn classify(&self, error: sqlx::Error) -> SqlError {
        use BackendErrorKind::{Busy, Config, Refused, Unknown};
        let number = match &error {
            sqlx::Error::Database(database) => number(database.as_ref()),
            _ => None,
        };
        let (kind, hint) = match number {
            Some(1205 | 1213) => (Busy, "another transaction has the rows"),
            Some(1040 | 1203 | 1226) => (Busy, "the server has no connection free"),
            Some(1290 | 1792 | 1836) => (Busy, "the server is read-only"),
            Some(1044 | 1045 | 1142 | 1143 | 1227) => (Config, "access was denied"),
            Some(1049) => (Config, "there is no such database"),
            Some(1665) => (Config, "the binary log has the format STATEMENT; ROW or MIXED is needed"),
            // The server is going down, or has ended this connection; the last ones are MariaDB's and MySQL's time limits.
            Some(1053 | 1077 | 1152 | 1153 | 1158..=1161 | 1317 | 1927 | 1969 | 3024 | 4031) => {
                (Unknown, "the call did not get through")
            }
            Some(_) => (Refused, "the statement was refused"),
            None => match &error {
                sqlx::Error::Configuration(_) => (Config, "the options do not fit"),
                sqlx::Error::Tls(error) => (Config, super::no_tls(error)),
                sqlx::Error::Io(error) if super::is_distrust(error) => (Config, "the server is not trusted"),
                sqlx::Error::Encode(_) | sqlx::Error::Decode(_) => (Refused, "a value does not fit"),
                _ => (Unknown, "the connection was lost, or there was none"),
            },
        };
        SqlError::new(kind, format!("{}: {hint}: {error}", self.place())).with_source(error)
    }
}

/// Whether the server at the other end is no longer the one that is written to.
fn moved(error: &dyn sqlx::error::DatabaseError) -> bool {
    matches!(number(error), Some(1290 | 1792 | 1836))
}

fn number(error: &dyn sqlx::error::DatabaseError) -> Option<u16> {
    error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>().map(sqlx::mysql::MySqlDatabaseError::number)
}

impl<D: SqlDialect> SqlClient for SqlxMySql<D> {
    async fn query(&self, statement: Statement) -> Result<Vec<Row>, SqlError> {
        self.send(self.dialect.text_of(&statement), false).await
    }

    async fn batch(&self, statements: Vec<Statement>) -> Result<Vec<Row>, SqlError> {
        let texts: Vec<String> = statements.iter().map(|statement| self.dialect.text_of(statement)).collect();
        self.send(format!("{BEGIN}{}; COMMIT", texts.join("; ")), true).await
    }

    async fn server(&self) -> Result<ServerInfo, SqlError> {
        let rows = self.query(Statement::new("SELECT VERSION(), @@read_only", Vec::new())).await?;
        let row = rows.first().ok_or_else(|| SqlError::new(BackendErrorKind::Unknown, "the server told no version"))?;
        let server = supported(row.text(0)?).map_err(|fault| SqlError::new(BackendErrorKind::Config, fault))?;
        let mut info = ServerInfo::new(format!("{server} at {}", self.place()));
        if row.int(1)? != 0 {
            info.warnings.push(format!("{}: the server is read-only; the store writes to it", self.place()));
        }
        Ok(info)
    }

    async fn close(&self) {
        let idle = std::mem::take(&mut *self.idle());
        for (_, connection) in idle {
            // Errors at the end change nothing: the server is as the last commit left it.
            drop(connection.close().await);
        }
    }
}

fn row(row: &MySqlRow) -> Result<Row, SqlError> {
    let unreadable = |error: &dyn std::fmt::Display| {
        SqlError::new(BackendErrorKind::Config, format!("an answer could not be read: {error}"))
    };
    let column = |index: usize| -> Result<Value, SqlError> {
        let raw = row.try_get_raw(index).map_err(|error| unreadable(&error))?;
        if raw.is_null() {
            return Ok(Value::Null);
        }
        let integer = raw.type_info().name().contains("INT");
        let bytes: Vec<u8> = row.try_get_unchecked(index).map_err(|error| unreadable(&error))?;
        let text = String::from_utf8(bytes).map_err(|error| unreadable(&error))?;
        if integer {
            return text.parse().map(Value::Int).map_err(|error| unreadable(&error));
        }
        Ok(Value::Text(text))
    };
    (0..row.len()).map(column).collect::<Result<Vec<_>, _>>().map(Row::new)
}

/// The server's name and version, if it is one that can do what we need (`SKIP LOCKED` is the youngest of that).
fn supported(version: &str) -> Result<String, String> {
    // MariaDB may put an old version of MySQL before its own, for clients that know no other.
    let own = version.strip_prefix("5.5.5-").unwrap_or(version);
    let maria = version.contains("MariaDB");
    let number = own.split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap_or_default();
    let mut parts = number.split('.').map(|part| part.parse::<u32>().unwrap_or_default());
    let found = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let (name, oldest) = if maria { ("MariaDB", (10, 6)) } else { ("MySQL", (8, 0)) };
    if found < oldest {
        return Err(format!("{name} {}.{} or newer is needed; the server is {version:?}", oldest.0, oldest.1));
    }
    Ok(format!("{name} {number}"))
}

fn options(url: &str) -> Result<MySqlConnectOptions, String> {
    let rest = url.strip_prefix("mysql:").or_else(|| url.strip_prefix("mariadb:"));
    let rest = rest.ok_or("the URL begins with `mysql://` or `mariadb://`")?;
    MySqlConnectOptions::from_str(&format!("mysql:{rest}")).map_err(|error| match error {
        // What it says may hold a part of the URL, which may be the password.
        sqlx::Error::Configuration(_) => "the URL cannot be read; write `mysql://user:password@host/database`, with \
             characters of the password that mean something in URLs as `%xx`"
            .to_owned(),
        error => error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_are_too_old_are_refused_by_name() {
        assert_eq!(supported("8.0.36").unwrap(), "MySQL 8.0.36");
        assert_eq!(supported("8.4.3-commercial").unwrap(), "MySQL 8.4.3");
        assert_eq!(supported("10.11.19-MariaDB-0+deb12u1").unwrap(), "MariaDB 10.11.19");
        assert_eq!(supported("5.5.5-10.6.4-MariaDB").unwrap(), "MariaDB 10.6.4");
        for old in ["5.7.44", "5.5.5-10.5.9-MariaDB", "10.3.39-MariaDB", "what"] {
            assert!(supported(old).unwrap_err().contains("or newer is needed"), "{old}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said_without_its_password() {
        for url in ["mysql://u:secret@h", "mysql://u:secret@h/", "mysql://u:secret@h:port/d", "postgres://u:secret@h/d"]
        {
            let client = SqlxMySql::at(url, ());
            let fault = client.source.as_ref().unwrap_err();
            assert!(!fault.contains("secret") && fault.contains("mysql://"), "{url}: {fault}");
        }
        let client = SqlxMySql::at("mariadb://u:secret@h/d", ());
        assert!(client.source.is_ok());
        assert!(!format!("{client:?}").contains("secret") && client.place() == "h:3306/d");
    }
}
