//! Clients for the SQL stores.

#[cfg(feature = "postgres")]
mod sqlx_postgres;
#[cfg(feature = "sqlite")]
mod sqlx_sqlite;

#[cfg(feature = "postgres")]
pub use sqlx_postgres::{SqlxPostgres, postgres_literal};
#[cfg(feature = "sqlite")]
pub use sqlx_sqlite::SqlxSqlite;
