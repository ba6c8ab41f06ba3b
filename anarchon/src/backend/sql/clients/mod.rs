//! Clients for the SQL stores.

#[cfg(feature = "sqlite")]
mod sqlx_sqlite;

#[cfg(feature = "sqlite")]
pub use sqlx_sqlite::SqlxSqlite;
