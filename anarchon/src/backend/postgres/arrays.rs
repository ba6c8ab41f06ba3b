//! Arrays, as texts of statements.
//!
//! They are most of what the server has to read of a batch, so what many have in common is said once.

use crate::backend::sql::Value;
use crate::backend::sql::clients::postgres_literal;

/// An array of integers.
pub(super) fn ints(values: impl Iterator<Item = Value>) -> String {
    let int = |value: &Value| match value {
        Value::Int(int) => int.to_string(),
        _ => "NULL".to_owned(),
    };
    let values: Vec<Value> = values.collect();
    match same(&values) {
        Some(value) => filled(&format!("'{}'::bigint", int(value)).replace("'NULL'", "NULL"), values.len()),
        None => format!("'{}'", array(&values, |array, value| array.push_str(&int(value)))),
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
    let plain: Vec<String> = values.map(|word| word.chars().filter(|c| is_plain(*c)).collect()).collect();
    texts(plain.iter().map(|word| Some(word.as_str())))
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
