//! Arrays, as texts of statements.
//!
//! They are most of what the server has to read of a batch, so what many have in common is said once.

use std::fmt::Write as _;

use crate::backend::sql::Value;
use crate::backend::sql::clients::postgres_literal;

/// An array of integers.
pub(super) fn ints(values: impl Iterator<Item = Value>) -> String {
    let values: Vec<Value> = values.collect();
    match same(&values) {
        Some(Value::Int(int)) => filled(&format!("'{int}'::bigint"), values.len()),
        Some(_) => filled("NULL::bigint", values.len()),
        None => {
            let array = array(&values, |array, value| match value {
                Value::Int(int) => drop(write!(array, "{int}")),
                _ => array.push_str("NULL"),
            });
            format!("'{array}'")
        }
    }
}

/// An array of texts. One that could end its literal, or be taken for anything else, is sent as any text is: in
/// hexadecimal digits.
pub(super) fn texts<'a>(values: impl Iterator<Item = Option<&'a str>>) -> String {
    let values: Vec<Option<&str>> = values.collect();
    let plain = values.iter().flatten().all(|text| text.chars().all(is_plain));
    if let (Some(Some(text)), true) = (same(&values), plain) {
        return filled(&format!("'{text}'::text"), values.len());
    }
    let array = array(&values, |array, value| match value {
        Some(text) if plain => {
            array.push('"');
            array.push_str(text);
            array.push('"');
        }
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
    if plain { format!("'{array}'::text[]") } else { format!("{}::text[]", postgres_literal(&array.into())) }
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
