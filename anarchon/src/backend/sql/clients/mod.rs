//! Clients for the SQL stores, each under the cargo feature of its driver.
//!
//! | client | feature | driver | database |
//! |---|---|---|---|
//! | `SqlxSqlite` | `sqlite` | sqlx | SQLite |
//! | `SqlxPostgres` | `postgres` | sqlx | PostgreSQL |
//! | `TokioPostgres` | `tokio-postgres` | tokio-postgres, deadpool-postgres | PostgreSQL |
//! | `SqlxMySql` | `mysql` | sqlx | MySQL, MariaDB |
//! | `LibsqlClient` | `libsql` | libsql | libSQL |

#[cfg(feature = "libsql")]
mod libsql;
#[cfg(feature = "_postgres")]
mod postgres;
#[cfg(feature = "mysql")]
mod sqlx_mysql;
#[cfg(feature = "postgres")]
mod sqlx_postgres;
#[cfg(feature = "sqlite")]
mod sqlx_sqlite;
#[cfg(feature = "tokio-postgres")]
mod tokio_postgres;

#[cfg(feature = "libsql")]
pub use libsql::LibsqlClient;
#[cfg(feature = "_postgres")]
pub use postgres::postgres_literal;
#[cfg(feature = "mysql")]
pub use sqlx_mysql::SqlxMySql;
#[cfg(feature = "postgres")]
pub use sqlx_postgres::SqlxPostgres;
#[cfg(feature = "sqlite")]
pub use sqlx_sqlite::SqlxSqlite;
#[cfg(feature = "tokio-postgres")]
pub use tokio_postgres::TokioPostgres;
