//! Answers as one text: each value of a row costs its client two allocations, and each column of an answer a description.

use super::client::{Row, SqlError, Value};
use crate::error::BackendErrorKind;

/// What lies between the columns of an answer, its rows, and the answers. No name has a control character.
pub(super) const COLUMN: char = '\x1f';
pub(super) const ROW: char = '\x1e';
pub(super) const ANSWER: char = '\x1d';

/// How many columns an answer has.
pub(super) const COLUMNS: usize = 14;

/// One text of some columns; NULL is an empty one.
pub(super) fn packed(columns: &[&str]) -> String {
    let format = vec!["%s"; columns.len()].join(&COLUMN.to_string());
    format!("printf('{format}', {})", columns.join(", "))
}

/// The rows of the answers to `claims` claims: one that has the fences of what was started, unless nothing was, and those
/// of the others, each with the number of its claim in the place of the job.
pub(super) fn unpacked(row: Option<&Row>, claims: usize) -> Result<Vec<Row>, SqlError> {
    let text = row.map(|row| row.text(0)).transpose()?.unwrap_or_default();
    let mut answers = text.split(ANSWER);
    let (fences, now) = (answers.next().unwrap_or_default(), answers.next().unwrap_or_default());
    let count = fences.split(',').count();
    if count != claims {
        let message = format!("{count} answers came back to {claims} claims");
        return Err(SqlError::new(BackendErrorKind::Unknown, message));
    }
    let mut rows = Vec::new();
    if fences.bytes().any(|byte| byte != b',') {
        rows.push(Row::new(vec![fences.into(), "started".into(), value(now)]));
    }
    for answer in answers {
        let (number, answer) = answer.split_once(COLUMN).unwrap_or((answer, ""));
        for row in answer.split(ROW) {
            let mut columns = Vec::with_capacity(COLUMNS);
            columns.push(value(number));
            columns.extend(row.split(COLUMN).map(value));
            rows.push(Row::new(columns));
        }
    }
    Ok(rows)
}

/// These columns of all rows as one text.
pub(super) fn one_text(columns: &[&str]) -> String {
    format!("group_concat({}, '{ROW}')", packed(columns))
}

/// The rows of such a text.
pub(super) fn rows(row: Option<&Row>) -> Result<Vec<Row>, SqlError> {
    let text = row.map(|row| row.opt_text(0)).transpose()?.flatten();
    Ok(text.map(split).unwrap_or_default())
}

/// The rows of an answer that is one text, if it is.
pub(super) fn of_one(rows: &[Row]) -> Option<Vec<Row>> {
    match rows {
        [row] => row.only_text().map(split),
        _ => None,
    }
}

fn split(text: &str) -> Vec<Row> {
    text.split(ROW).map(|row| Row::new(row.split(COLUMN).map(value).collect())).collect()
}

/// A column of an answer. Every text in one is a word or a token, so what reads as a number is one.
fn value(text: &str) -> Value {
    if text.is_empty() {
        return Value::Null;
    }
    text.parse().map_or_else(|_| Value::from(text), Value::Int)
}
