//! Clients for the SQL stores.

#[cfg(feature = "libsql")]
mod libsql;
#[cfg(feature = "mysql")]
mod sqlx_mysql;
#[cfg(feature = "postgres")]
mod sqlx_postgres;
#[cfg(feature = "sqlite")]
mod sqlx_sqlite;

#[cfg(feature = "libsql")]
pub use libsql::LibsqlClient;
#[cfg(feature = "mysql")]
pub use sqlx_mysql::SqlxMySql;
#[cfg(feature = "postgres")]
pub use sqlx_postgres::{SqlxPostgres, postgres_hex, postgres_literal};
#[cfg(feature = "sqlite")]
pub use sqlx_sqlite::SqlxSqlite;
