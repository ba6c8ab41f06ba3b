//! Reads the values of options. The grammars are those of `anarchon-schedule`, which the runtime uses too.

use std::time::Duration;

use anarchon_schedule::zone::Tz;
use anarchon_schedule::{At, Cron, Dialect, ParseError, interval, zone};
use syn::{Expr, Lit, LitStr};

use crate::diagnostic::Errors;
use crate::list::Given;
use crate::option::{Kind, Table};

/// The option whose grammar reads `text`.
pub(crate) fn looks_like(text: &str) -> Option<&'static str> {
    if interval::parse(text).is_ok() {
        Some("every")
    } else if At::parse(text, None).is_ok() {
        Some("at")
    } else if Cron::parse(text, Dialect::Unix, Tz::UTC).is_ok() {
        Some("cron")
    } else {
        None
    }
}

/// A literal that `read` accepts; what it refuses is reported at the literal.
pub(crate) fn read<T>(
    literal: &LitStr,
    errors: &mut Errors,
    read: impl FnOnce(&str) -> Result<T, ParseError>,
) -> Option<T> {
    read(&literal.value()).map_err(|error| errors.text(literal, &error)).ok()
}

/// The text of an option that is read at compile time.
pub(crate) fn text<'a>(given: &'a Given, table: &Table, errors: &mut Errors) -> Option<&'a LitStr> {
    if let Some(Lit::Str(literal)) = given.literal() {
        return Some(literal);
    }
    let expr = given.expr()?;
    errors.on(expr, wants_text(given, table));
    None
}

/// A text, or an expression that is left to the runtime.
pub(crate) fn text_or_expression<'a>(given: &'a Given, table: &Table, errors: &mut Errors) -> Option<&'a LitStr> {
    match (given.literal(), given.expr()) {
        (Some(_), _) | (None, Some(Expr::Unary(_))) => text(given, table, errors),
        _ => None,
    }
}

fn wants_text(given: &Given, table: &Table) -> String {
    let (key, option) = (&given.key, given.option);
    let guess = match (given.literal(), given.expr()) {
        (Some(Lit::Int(number)), _) if option.kind == Kind::Interval => {
            // `10s` without quotes is one literal to the compiler, and a bare number means seconds to most people.
            let written = number.to_string();
            let guess =
                if interval::parse(&written).is_ok() { written } else { format!("{}s", number.base10_digits()) };
            Some(format!("{guess:?}"))
        }
        // `skip` or `Overlap::Skip` for "skip"
        (None, Some(Expr::Path(expr))) => expr.path.segments.last().and_then(|last| {
            let word = last.ident.to_string().to_lowercase();
            if option.name == "name" && expr.path.get_ident().is_some() {
                return Some(format!("\"{}\"", last.ident));
            }
            let known = (option.name == "overlap" && ["skip", "allow"].contains(&word.as_str()))
                || (option.name == "dialect" && ["unix", "quartz"].contains(&word.as_str()));
            known.then(|| format!("{word:?}"))
        }),
        _ => None,
    };
    let example = table.written(option, guess.as_deref().unwrap_or(option.example));
    let what = match option.kind {
        Kind::Interval => "an interval as a text",
        _ => "a text",
    };
    match given.literal() {
        Some(_) => format!("`{key}` takes {what}; write `{example}`"),
        None => format!("`{key}` takes {what} that can be read at compile time; write `{example}`"),
    }
}

pub(crate) fn duration(given: &Given, table: &Table, errors: &mut Errors) -> Option<Duration> {
    let literal = text(given, table, errors)?;
    read(literal, errors, interval::parse)
}

/// A duration for which zero makes no sense.
pub(crate) fn positive(given: &Given, table: &Table, errors: &mut Errors) -> Option<Duration> {
    let duration = duration(given, table, errors)?;
    if duration.is_zero() {
        errors.at(given.span(), format!("`{}` must be longer than zero; leave it out to have none", given.key));
        return None;
    }
    Some(duration)
}

/// The zone and its name.
pub(crate) fn timezone(given: &Given, table: &Table, errors: &mut Errors) -> Option<(String, Tz)> {
    let literal = text(given, table, errors)?;
    read(literal, errors, zone::parse).map(|zone| (literal.value(), zone))
}

/// A number from 1.
pub(crate) fn count(given: &Given, table: &Table, errors: &mut Errors) -> Option<u32> {
    let expr = given.expr()?;
    let example = |value: &str| table.written(given.option, value);
    let key = &given.key;
    let message = match (given.literal(), Some(expr)) {
        (Some(Lit::Int(number)), _) => match number.base10_parse::<u32>() {
            Ok(0) => format!("`{key}` must be at least 1"),
            Ok(number) => return Some(number),
            Err(_) => format!("`{key}` is at most {}", u32::MAX),
        },
        (Some(Lit::Str(text)), _) if text.value().trim().parse::<u32>().is_ok() => {
            format!("`{key}` takes a number without quotes; write `{}`", example(text.value().trim()))
        }
        (None, Some(Expr::Unary(_))) => format!("`{key}` must be at least 1"),
        (None, _) => {
            format!(
                "`{key}` takes a number that can be read at compile time; write `{}`",
                example(given.option.example)
            )
        }
        _ => format!("`{key}` takes a whole number; write `{}`", example(given.option.example)),
    };
    errors.on(expr, message);
    None
}
