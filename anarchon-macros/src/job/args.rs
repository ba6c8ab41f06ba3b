//! What the attribute says, option by option, each read by its own grammar.

use std::time::Duration;

use anarchon_schedule::zone::Tz;
use anarchon_schedule::{Dialect, interval, name, suggest};
use proc_macro2::{Ident, TokenStream};
use syn::{Expr, LitStr, Path};

use crate::diagnostic::Errors;
use crate::list::{self, Given};
use crate::option::JOB;
use crate::text;

/// A value, and the option and value it came from.
pub(crate) struct Spanned<T> {
    pub(crate) value: T,
    pub(crate) key: Ident,
    pub(crate) literal: Option<LitStr>,
}

/// The values that could be read. Whatever is `None` was left out, or has been reported.
#[derive(Default)]
pub(crate) struct Args {
    /// All of `every`, `cron` and `at` in the order they were given: not yet known to be one.
    pub(crate) schedules: Vec<(Ident, When)>,
    pub(crate) dialect: Option<Spanned<Option<Dialect>>>,
    pub(crate) offset: Option<Spanned<Duration>>,
    pub(crate) timezone: Option<Spanned<Option<(String, Tz)>>>,
    pub(crate) jitter: Option<Spanned<Duration>>,
    pub(crate) overlap: Option<Spanned<Overlap>>,
    pub(crate) numbers: Vec<(Ident, Number)>,
    pub(crate) data: Option<Expr>,
    pub(crate) name: Option<LitStr>,
    pub(crate) krate: Option<Path>,
    /// The options that not every store can honour.
    pub(crate) marked: Vec<Ident>,
}

/// What a schedule says, before its zone and dialect are known.
pub(crate) enum When {
    Every(Option<Duration>, Option<LitStr>),
    Cron(Option<LitStr>),
    At(Option<LitStr>),
}

/// An option's value as the runtime takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    Count(u32),
    Ms(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overlap {
    Skip,
    Allow,
}

impl Args {
    pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Self {
        let mut args = Self::default();
        list::parse(tokens, &JOB, errors, |given, errors| args.take(&given, errors));
        args
    }

    fn take(&mut self, given: &Given, errors: &mut Errors) {
        let key = || given.key.clone();
        if given.option.marked {
            self.marked.push(key());
        }
        match given.option.name {
            "every" => {
                let text = text::text(given, &JOB, errors).cloned();
                let interval = text.as_ref().and_then(|text| text::read(text, errors, interval::parse));
                self.schedules.push((key(), When::Every(interval, text)));
            }
            "cron" => self.schedules.push((key(), When::Cron(text::text(given, &JOB, errors).cloned()))),
            "at" => self.schedules.push((key(), When::At(text::text(given, &JOB, errors).cloned()))),
            "dialect" => {
                let dialect = text::text(given, &JOB, errors).and_then(|text| text::read(text, errors, str::parse));
                self.dialect = Some(spanned(given, dialect));
            }
            "timezone" => self.timezone = Some(spanned(given, text::timezone(given, &JOB, errors))),
            "offset" => self.offset = text::duration(given, &JOB, errors).map(|value| spanned(given, value)),
            "overlap" => {
                let overlap = text::text(given, &JOB, errors).and_then(|text| overlap(text, errors));
                self.overlap = overlap.map(|value| spanned(given, value));
            }
            "jitter" => {
                self.jitter = text::duration(given, &JOB, errors).map(|value| spanned(given, value));
                self.number(given, self.jitter.as_ref().map(|jitter| ms(jitter.value)));
            }
            "max_late" | "catch_up" | "takeover_within" => {
                let value = text::duration(given, &JOB, errors).map(ms);
                self.number(given, value);
            }
            "timeout" | "history_ttl" | "retry_failed" => {
                let value = text::positive(given, &JOB, errors).map(ms);
                self.number(given, value);
            }
            "history_size" | "max_attempts" => {
                let value = text::count(given, &JOB, errors).map(Number::Count);
                self.number(given, value);
            }
            "data" => self.data = given.expr().cloned(),
            "name" => {
                self.name = text::text(given, &JOB, errors).filter(|text| good_name(text, errors)).cloned();
            }
            "crate" => self.krate = given.path(errors),
            other => errors.at(given.key.span(), format!("`{other}` is in the table of options, but nothing reads it")),
        }
    }

    fn number(&mut self, given: &Given, value: Option<Number>) {
        self.numbers.extend(value.map(|value| (given.key.clone(), value)));
    }
}

fn spanned<T>(given: &Given, value: T) -> Spanned<T> {
    let literal = match given.literal() {
        Some(syn::Lit::Str(literal)) => Some(literal.clone()),
        _ => None,
    };
    Spanned { value, key: given.key.clone(), literal }
}

fn ms(duration: Duration) -> Number {
    // An interval is at most a hundred years.
    Number::Ms(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

fn overlap(text: &LitStr, errors: &mut Errors) -> Option<Overlap> {
    let word = text.value();
    match word.as_str() {
        "skip" => return Some(Overlap::Skip),
        "allow" => return Some(Overlap::Allow),
        _ => {}
    }
    let hint = match suggest::closest(&word, ["skip", "allow"]) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => "write `skip` (a slot that falls due while a run is live is skipped) or `allow`".to_owned(),
    };
    errors.at(text.span(), format!("unknown overlap {word:?}; {hint}"));
    None
}

fn good_name(text: &LitStr, errors: &mut Errors) -> bool {
    let fault = name::fault(&text.value());
    if let Some(fault) = fault {
        errors.at(text.span(), format!("this cannot be a job's name: {fault}; a name is 1 to 128 bytes of text"));
    }
    fault.is_none()
}
