//! MySQL and MariaDB: claims, leases and history in the database that the application has.
//!
//! Built on nothing but [`SqlBackend`] and what it asks of a database. Each step is one transaction, READ COMMITTED and
//! sent as one message; the row of the job is what makes the claims of a job take turns. MySQL 8.0 or newer, MariaDB 10.6
//! or newer.

mod dialect;

use sqlx::MySqlPool;

pub use self::dialect::MySqlDialect;
use super::sql::clients::SqlxMySql;
use super::sql::{SqlBackend, front};

/// A lease backend on a MySQL or MariaDB database.
///
/// Nothing connects before `start()`; then the tables are made if they are missing. Up to four connections are opened,
/// which are the backend's own, so leases do not wait behind the application's queries.
///
/// | option | default | meaning |
/// |---|---|---|
/// | [`table`](Self::table) | `anarchon_runs` | the common name of the four tables |
///
/// ```
/// use anarchon::MySqlBackend;
///
/// let backend = MySqlBackend::new("mysql://billing:secret@db.internal/billing").table("cron_runs");
/// # drop(backend);
/// ```
///
/// Where the user may not make tables, one start as a user who may is enough; from then on SELECT, INSERT, UPDATE and
/// DELETE on the four tables will do. With a binary log its format is `ROW` or `MIXED`.
#[derive(Debug)]
pub struct MySqlBackend(SqlBackend<SqlxMySql<MySqlDialect>, MySqlDialect>);

impl MySqlBackend {
    /// The database at a URL: `mysql://user:password@host:port/database` or `mariadb://…`, with sqlx's parameters, such as
    /// `?socket=/run/mysqld/mysqld.sock`. What is wrong with it, or with the server, is an error of `start()`.
    #[must_use]
    pub fn new(url: impl AsRef<str>) -> Self {
        Self::on(SqlxMySql::at(url.as_ref(), MySqlDialect::new()))
    }

    /// The database of a pool that the application has. Only its address and settings are used: the backend opens
    /// connections of its own, and the pool is never closed.
    #[must_use]
    pub fn from_pool(pool: &MySqlPool) -> Self {
        Self::on(SqlxMySql::from_pool(pool, MySqlDialect::new()))
    }

    fn on(client: SqlxMySql<MySqlDialect>) -> Self {
        Self(SqlBackend::new("mysql", client, MySqlDialect::new()))
    }

    /// Uses tables of another common name: ASCII letters, digits and `_`, at most 48; `jobs.cron_runs` are those in the
    /// database `jobs`. Anything else is an error of `start()`.
    #[must_use]
    pub fn table(self, name: impl AsRef<str>) -> Self {
        Self(self.0.table(name.as_ref()))
    }
}

impl From<MySqlPool> for MySqlBackend {
    fn from(pool: MySqlPool) -> Self {
        Self::from_pool(&pool)
    }
}

front!(MySqlBackend, finishes in sqlx::MySql);
