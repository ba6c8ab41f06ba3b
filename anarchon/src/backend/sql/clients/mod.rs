//! Clients for the SQL stores, each under the cargo feature of its driver.
//!
//! | client | feature | driver | database |
//! |---|---|---|---|
//! | `SqlxSqlite` | `sqlite` | sqlx | SQLite |
//! | `SqlxPostgres` | `postgres` | sqlx | PostgreSQL |
//! | `TokioPostgres` | `tokio-postgres` | tokio-postgres, deadpool-postgres | PostgreSQL |
//! | `SqlxMySql` | `mysql` | sqlx | MySQL, MariaDB |
//! | `LibsqlClient` | `libsql` | libsql | libSQL |

/// What sqlx means by an error of TLS.
#[cfg(any(feature = "mysql", feature = "postgres"))]
fn no_tls(error: &crate::error::BoxError) -> &'static str {
    // Whether it can encrypt is not for us alone to say: an application may enable its features, too.
    match error.to_string().contains("built without TLS") {
        true => crate::backend::NO_TLS,
        false => "no encrypted connection can be made",
    }
}

/// Whether there is no connection because the server's certificate is not trusted.
#[cfg(any(feature = "mysql", feature = "postgres"))]
fn is_distrust(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::InvalidData && error.to_string().contains("certificate")
}

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
