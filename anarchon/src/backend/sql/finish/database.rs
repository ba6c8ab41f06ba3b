//! The databases of sqlx inside whose transactions runs are finished: how a text is sent, and what its errors mean.

use std::future::Future;

use sqlx::{AssertSqlSafe, Row as _};

use super::extractor::FinishError;
use crate::error::BoxError;

mod sealed {
    pub trait Sealed {}
}

/// A database of sqlx inside whose transactions runs can be finished.
///
/// Never implemented by hand. Whether a store is that database is told by [`FinishIn`](crate::backend::FinishIn).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no database in which a run can be finished",
    label = "not a database of sqlx whose feature is on, as in `Finish<sqlx::Sqlite>`"
)]
pub trait FinishDatabase: sqlx::Database + sealed::Sealed {
    #[doc(hidden)]
    const TYPE: &'static str;
    /// The query for the transaction's isolation level, where it has to be READ COMMITTED.
    #[doc(hidden)]
    const ISOLATION: Option<&'static str>;

    #[doc(hidden)]
    fn send(
        connection: &mut Self::Connection,
        text: String,
    ) -> impl Future<Output = Result<Vec<Said>, sqlx::Error>> + Send;

    #[doc(hidden)]
    fn fault(error: sqlx::Error) -> FinishError;
}

/// One row of what comes back.
#[doc(hidden)]
#[derive(Debug)]
pub enum Said {
    Isolation(String),
    Marked { now: bool, status: Option<String> },
}

/// What stays the same: a text goes in one piece, by the simplest protocol that the database has, and prepares nothing.
macro_rules! finish_database {
    ($database:ident, $isolation:expr, $fault:path) => {
        impl sealed::Sealed for sqlx::$database {}

        impl FinishDatabase for sqlx::$database {
            const TYPE: &'static str = stringify!($database);
            const ISOLATION: Option<&'static str> = $isolation;

            async fn send(connection: &mut Self::Connection, text: String) -> Result<Vec<Said>, sqlx::Error> {
                let rows = sqlx::raw_sql(AssertSqlSafe(text)).fetch_all(connection).await?;
                let said = |row: &<sqlx::$database as sqlx::Database>::Row| match row.len() {
                    // A variable comes alone, or with its name before it.
                    1 | 2 => row.try_get_unchecked(row.len() - 1).map(Said::Isolation),
                    _ => Ok(Said::Marked {
                        now: row.try_get_unchecked::<i64, _>(2)? == 1,
                        status: row.try_get_unchecked(3)?,
                    }),
                };
                rows.iter().map(said).collect()
            }

            fn fault(error: sqlx::Error) -> FinishError {
                $fault(error)
            }
        }
    };
}

// Its transactions see one state and write on nothing else, so there is no isolation to ask for.
#[cfg(feature = "sqlite")]
finish_database!(Sqlite, None, sqlite_fault);

#[cfg(feature = "sqlite")]
fn sqlite_fault(error: sqlx::Error) -> FinishError {
    let code = match &error {
        sqlx::Error::Database(database) => database.code().and_then(|code| code.parse::<u32>().ok()),
        _ => None,
    };
    let source: BoxError = Box::new(error);
    // The low byte is the primary code: busy or locked.
    match code.map(|code| code & 0xff) {
        Some(5 | 6) => FinishError::CannotWrite {
            hint: "another connection writes, or has written since this transaction began to read; begin it with \
                   `pool.begin_with(\"BEGIN IMMEDIATE\")`, which waits for its turn before it reads anything",
            source,
        },
        Some(8) => FinishError::CannotWrite { hint: "the database, or this connection to it, is read-only", source },
        _ => FinishError::Database(source),
    }
}

#[cfg(feature = "postgres")]
finish_database!(Postgres, Some("SELECT current_setting('transaction_isolation')"), postgres_fault);

#[cfg(feature = "postgres")]
fn postgres_fault(error: sqlx::Error) -> FinishError {
    // READ COMMITTED never raises it; a stricter level does when the row has changed since the transaction began.
    match &error {
        sqlx::Error::Database(database) if database.code().is_some_and(|code| code == "40001") => {
            FinishError::Isolation { found: "repeatable read or serializable".to_owned() }
        }
        _ => server_fault(error),
    }
}

// The variable's name differs between MySQL and MariaDB. It is the session's level; that of one transaction alone cannot be
// asked for.
#[cfg(feature = "mysql")]
finish_database!(MySql, Some("SHOW SESSION VARIABLES LIKE 't%\\_isolation'"), server_fault);

#[cfg(any(feature = "postgres", feature = "mysql"))]
fn server_fault(error: sqlx::Error) -> FinishError {
    // The code that the SQL standard gives to it.
    let is_it =
        matches!(&error, sqlx::Error::Database(database) if database.code().is_some_and(|code| code == "25006"));
    let source: BoxError = Box::new(error);
    match is_it {
        true => FinishError::CannotWrite { hint: "it was begun as a read-only one", source },
        false => FinishError::Database(source),
    }
}
