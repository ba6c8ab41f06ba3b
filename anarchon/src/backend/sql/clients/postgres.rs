//! What all clients of PostgreSQL have in common: the message, and what errors mean.

use crate::backend::ServerInfo;
use crate::backend::sql::dialect::fill;
use crate::backend::sql::{SqlClient, SqlError, Statement, Value, hex};
use crate::error::BackendErrorKind;

/// How many connections are open at most: a heartbeat need not wait behind a claim that waits for a lock.
pub(super) const CONNECTIONS: usize = 2;

/// The oldest server, as in `server_version_num`.
const OLDEST: i64 = 90_500;

/// What heads each message. A default of the database or the user would make calls fail that only had to wait for each
/// other; one that is set when connecting is refused by poolers.
const HEAD: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; ";

/// One message of the simple protocol, which is one transaction by itself.
pub(super) fn message(statements: &[Statement]) -> String {
    let mut text = HEAD.to_owned();
    for statement in statements {
        text.push_str(&fill(statement, postgres_literal));
        text.push(';');
    }
    text
}

/// What an error's code says about its effect, and in words; `None` if there is no code.
pub(super) fn meaning(code: &str) -> Option<(BackendErrorKind, &'static str)> {
    use BackendErrorKind::{Busy, Config, Refused, Unknown};
    Some(match (code.get(..2).unwrap_or_default(), code) {
        (_, "") => return None,
        (_, "40001" | "40P01" | "55P03") => (Busy, "another transaction was in the way"),
        (_, "53300") => (Busy, "the server has no connection free"),
        (_, "25006") => (Busy, "the server takes no writes; it may be a standby"),
        (_, "57014") => (Unknown, "the statement was cancelled"),
        ("57" | "08", _) => (Unknown, "the connection was lost"),
        ("53" | "58" | "XX", _) => (Unknown, "the server failed"),
        ("28", _) => (Config, "the server does not let this user in"),
        (_, "3D000") => (Config, "there is no such database"),
        (_, "3F000") => (Config, "there is no such schema; it has to exist"),
        (_, "42501") => (
            Config,
            "the user lacks a privilege: either let it make tables and functions in their schema, or start this \
             release once as a user who may, then grant SELECT, INSERT, UPDATE and DELETE on the four tables and \
             EXECUTE on the functions",
        ),
        (_, "25001") => (Refused, "the connection was in a transaction of the application"),
        _ => (Refused, "the statement was refused"),
    })
}

/// Asks the server what it is; `place` says where.
pub(super) async fn server(client: &impl SqlClient, place: &str) -> Result<ServerInfo, SqlError> {
    let ask = "SELECT current_setting('server_version_num')::bigint, current_setting('server_version'), \
               current_setting('server_encoding')";
    let rows = client.query(Statement::new(ask, Vec::new())).await?;
    let none = || SqlError::new(BackendErrorKind::Unknown, "the server does not say its version");
    let row = rows.first().ok_or_else(none)?;
    let (number, version, encoding) = (row.int(0)?, row.text(1)?, row.text(2)?);
    if number < OLDEST {
        let message = format!("PostgreSQL 9.5 or newer is needed; {place} is {version}");
        return Err(SqlError::new(BackendErrorKind::Config, message));
    }
    let mut info = ServerInfo::new(format!("PostgreSQL {version} at {place}"));
    if encoding != "UTF8" {
        info.warnings.push(format!(
            "{place}: the database's encoding is {encoding}, so names and error texts that it cannot hold are refused"
        ));
    }
    Ok(info)
}

/// The expression of a value: integers in decimal, texts in hexadecimal digits, of which none can end the literal.
/// NUL, which no text of the server's can hold, becomes U+FFFD.
#[must_use]
pub fn postgres_literal(value: &Value) -> String {
    match value {
        // Its digits alone would be one too large before the sign is looked at.
        Value::Int(i64::MIN) => format!("({} - 1)", i64::MIN + 1),
        Value::Int(int) => format!("({int})"),
        // The server's texts cannot hold NUL.
        Value::Text(text) if text.contains('\0') => postgres_literal(&text.replace('\0', "\u{fffd}").into()),
        Value::Text(text) => format!("convert_from(decode('{}', 'hex'), 'UTF8')", hex(text)),
        Value::Null => "NULL".to_owned(),
    }
}
