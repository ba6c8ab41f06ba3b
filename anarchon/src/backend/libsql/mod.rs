//! libSQL: SQLite that several machines share, through a server of one's own or Turso.
//!
//! The tables, the statements and the dialect are those of SQLite; each step is one transactional batch, sent as one
//! request. The server's clock is the store's.

use std::sync::Arc;

use libsql::Database;

use super::SqliteDialect;
use super::sql::clients::LibsqlClient;
use super::sql::{SqlBackend, front};

/// A lease backend on a libSQL server.
///
/// Nothing connects before `start()`; then the tables are made if they are missing. One request is under way at a time,
/// which is what such a server is fastest at, and none is ever cut off.
///
/// | option | default | meaning |
/// |---|---|---|
/// | [`table`](Self::table) | `anarchon_runs` | the common name of the four tables |
///
/// ```
/// use anarchon::LibsqlBackend;
///
/// let backend = LibsqlBackend::new("http://localhost:8080", "").table("cron_runs");
/// # drop(backend);
/// ```
#[derive(Debug)]
pub struct LibsqlBackend(SqlBackend<LibsqlClient<SqliteDialect>, SqliteDialect>);

impl LibsqlBackend {
    /// The server at a URL, and the token it asks for, which is empty if it asks for none. `http://` is plain;
    /// `libsql://` and `https://` need the cargo feature `tls`. What is wrong with them is an error of `start()`.
    #[must_use]
    pub fn new(url: impl AsRef<str>, token: impl AsRef<str>) -> Self {
        Self::on(LibsqlClient::at(url.as_ref(), token.as_ref(), dialect()))
    }

    /// A database that the application has opened with the `libsql` crate, which must be a remote one
    /// (`Builder::new_remote`): any other is an error of `start()`. Connections of our own are made by it, and it is never
    /// closed.
    #[must_use]
    pub fn from_database(database: impl Into<Arc<Database>>) -> Self {
        Self::on(LibsqlClient::from_database(database, dialect()))
    }

    /// The server at a URL, with the token that the URL (`?authToken=…`) or else `LIBSQL_AUTH_TOKEN` holds.
    pub(crate) fn open(url: &str) -> Result<Self, String> {
        match std::env::var("LIBSQL_AUTH_TOKEN") {
            Ok(token) => Ok(Self::new(url, token.trim())),
            Err(std::env::VarError::NotPresent) => Ok(Self::new(url, "")),
            Err(std::env::VarError::NotUnicode(_)) => Err("LIBSQL_AUTH_TOKEN is not text".to_owned()),
        }
    }

    fn on(client: LibsqlClient<SqliteDialect>) -> Self {
        Self(SqlBackend::new("libsql", client, dialect()))
    }

    /// Uses tables of another common name: ASCII letters, digits and `_`, at most 48. Anything else is an error of
    /// `start()`.
    #[must_use]
    pub fn table(self, name: impl AsRef<str>) -> Self {
        Self(self.0.table(name.as_ref()))
    }
}

impl From<Database> for LibsqlBackend {
    fn from(database: Database) -> Self {
        Self::from_database(database)
    }
}

/// A request is all that there is of a session.
fn dialect() -> SqliteDialect {
    SqliteDialect::new().without_sessions()
}

front!(LibsqlBackend);
