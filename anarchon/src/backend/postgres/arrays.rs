//! Arguments, as texts of statements.
//!
//! Arrays are most of what the server has to read of a batch, so what many have in common is said once.

use std::fmt::Write as _;

use crate::backend::sql::Value;
use crate::backend::sql::clients::postgres_literal;

/// An array of integers.
pub(super) fn ints(values: impl Iterator<Item = Value>) -> String {
    let values: Vec<Value> = values.collect();
    match same(&values) {
        Some(Value::Int(int)) => filled(&format!("'{int}'::bigint"), values.len()),
        Some(_) => filled("NULL::bigint", values.len()),
        None => each_int(&values),
    }
}

/// An array of integers, or of the one that all are, for a function that takes it as that of all.
pub(super) fn ints_or_one(values: impl Iterator<Item = Value>) -> String {
    let values: Vec<Value> = values.collect();
    each_int(same(&values).map_or(values.as_slice(), std::slice::from_ref))
}

fn each_int(values: &[Value]) -> String {
    let array = array(values, |array, value| match value {
        Value::Int(int) => drop(write!(array, "{int}")),
        _ => array.push_str("NULL"),
    });
    format!("'{array}'")
}

/// An array of texts. One that could end its literal, or be taken for anything else, is sent as any text is: in
/// hexadecimal digits.
pub(super) fn texts<'a>(values: impl Iterator<Item = Option<&'a str>>) -> String {
    let values: Vec<Option<&str>> = values.collect();
    match same(&values) {
        Some(Some(text)) if text.chars().all(is_plain) => filled(&format!("'{text}'::text"), values.len()),
        _ => each_text(&values),
    }
}

/// An array of texts, or of the one that all are, for a function that takes it as that of all.
pub(super) fn texts_or_one<'a>(values: impl Iterator<Item = &'a str>) -> String {
    let values: Vec<Option<&str>> = values.map(Some).collect();
    each_text(same(&values).map_or(values.as_slice(), std::slice::from_ref))
}

fn each_text(values: &[Option<&str>]) -> String {
    // The server splits a text in less time than it reads an array; but one without anything in it has no parts.
    let plain: Option<Vec<&str>> = values.iter().map(|text| text.filter(|text| text.chars().all(is_plain))).collect();
    if let Some(joined) = plain.map(|texts| texts.join(",")).filter(|joined| !joined.is_empty()) {
        return format!("string_to_array('{joined}', ',')");
    }
    let array = array(values, |array, value| match value {
        Some(text) => {
            array.push('"');
            for c in text.chars() {
                if matches!(c, '"' | '\\') {
                    array.push('\\');
                }
                array.push(c);
            }
            array.push('"');
        }
        None => array.push_str("NULL"),
    });
    if values.iter().flatten().all(|text| text.chars().all(is_plain)) {
        return format!("'{array}'::text[]");
    }
    format!("{}::text[]", postgres_literal(&array.into()))
}

/// A text by itself.
pub(super) fn text(text: &str) -> String {
    if text.chars().all(is_plain) { format!("'{text}'") } else { postgres_literal(&text.into()) }
}

/// An array of words of ours: whatever could end one is left out.
pub(super) fn words(values: impl Iterator<Item = String>) -> String {
    let mut words: Vec<String> = values.collect();
    words.iter_mut().for_each(|word| word.retain(is_plain));
    texts(words.iter().map(|word| Some(word.as_str())))
}

/// What means nothing but itself in a literal, in an array and in a statement, whatever the server's settings are.
const fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '=' | '/')
}

/// What all of several values are.
fn same<T: PartialEq>(values: &[T]) -> Option<&T> {
    let (first, rest) = values.split_first()?;
    (!rest.is_empty() && rest.iter().all(|value| value == first)).then_some(first)
}

/// An array that has one value so many times.
fn filled(value: &str, count: usize) -> String {
    format!("array_fill({value}, '{{{count}}}')")
}

fn array<T>(values: &[T], mut write: impl FnMut(&mut String, &T)) -> String {
    let mut array = String::from("{");
    for (n, value) in values.iter().enumerate() {
        if n > 0 {
            array.push(',');
        }
        write(&mut array, value);
    }
    array.push('}');
    array
}
