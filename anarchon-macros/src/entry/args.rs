//! What `anarchon::main!` and `anarchon::backend!` are given.

use std::time::Duration;

use anarchon_schedule::{interval, zone};
use proc_macro2::{Ident, Span, TokenStream};
use syn::parse::{Parse, ParseStream, Parser};
use syn::{Expr, Path, Token, Type};

use super::window;
use crate::diagnostic::Errors;
use crate::list::{self, Given, Value};
use crate::option::{Kind, MAIN};
use crate::text;

/// A program: its store, and what is said about the scheduler in the order it was written.
#[derive(Default)]
pub(crate) struct Program {
    pub(crate) backend: Option<Type>,
    pub(crate) connected: Option<Expr>,
    /// How long the store remembers a slot, if that is spelled out.
    pub(crate) window: Option<Duration>,
    history_ttl: Option<(Span, Duration)>,
    pub(crate) calls: Vec<(Ident, Expr)>,
    pub(crate) krate: Option<Path>,
}

impl Program {
    pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Option<Self> {
        if tokens.is_empty() {
            return Some(Self::default());
        }
        if !fields.parse2(tokens.clone()).unwrap_or(false) {
            return match syn::parse2::<Alone>(tokens) {
                Ok(Alone(backend)) => Some(Self { backend: Some(backend), ..Self::default() }),
                Err(error) => {
                    errors.at(
                        error.span(),
                        "`anarchon::main!` takes a backend's type, as in `anarchon::main!(SqliteBackend)`, or fields, as in \
                         `anarchon::main! { backend: SqliteBackend, lease: \"15s\" }`",
                    );
                    None
                }
            };
        }
        let mut program = Self::default();
        list::parse(tokens, &MAIN, errors, |given, errors| program.take(given, errors));
        program.outlasts_window(errors);
        Some(program)
    }

    fn take(&mut self, given: Given, errors: &mut Errors) {
        match (given.option.name, given.option.kind) {
            ("crate", _) => {
                self.krate = given.path(errors);
                return;
            }
            ("history_ttl", _) => {
                let ttl = text::text_or_expression(&given, &MAIN, errors).is_some();
                let ttl = ttl.then(|| text::positive(&given, &MAIN, errors)).flatten();
                self.history_ttl = ttl.map(|ttl| (given.span(), ttl));
            }
            (_, Kind::Interval | Kind::Text) => literal(&given, errors),
            (_, Kind::Count) if given.literal().is_some() => {
                text::count(&given, &MAIN, errors);
            }
            _ => {}
        }
        match given.value {
            Value::Backend(ty, value) => {
                self.backend = Some(*ty);
                self.connected = value.map(|value| *value);
                self.window = self.connected.as_ref().and_then(window::spelled_out);
            }
            Value::Missing => {}
            Value::Expr(value) => self.calls.push((given.key, *value)),
        }
    }

    fn outlasts_window(&self, errors: &mut Errors) {
        if let (Some((span, ttl)), Some(window)) = (self.history_ttl, self.window)
            && ttl <= window
        {
            errors.at(
                span,
                format!(
                    "`history_ttl` must be longer than the window of the `script` strategy, `{}`: what it drops decides slots",
                    interval::format(window)
                ),
            );
        }
    }
}

/// Checks a text as a job's is checked; other expressions are left to the runtime.
fn literal(given: &Given, errors: &mut Errors) {
    let Some(text) = text::text_or_expression(given, &MAIN, errors) else { return };
    match (given.option.name, given.option.kind) {
        ("timeout", _) => {
            text::positive(given, &MAIN, errors);
        }
        ("timezone", _) => {
            text::read(text, errors, zone::parse);
        }
        (_, Kind::Interval) => {
            text::read(text, errors, interval::parse);
        }
        _ => {}
    }
}

/// Whether the tokens begin like `field: …`.
fn fields(input: ParseStream<'_>) -> syn::Result<bool> {
    let field =
        (input.peek(syn::Ident) || input.peek(Token![crate])) && input.peek2(Token![:]) && !input.peek2(Token![::])
            || input.peek(syn::Ident) && input.peek2(Token![=]);
    input.parse::<TokenStream>()?;
    Ok(field)
}

/// One type, and nothing after it.
pub(crate) struct Alone(pub(crate) Type);

impl Parse for Alone {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let ty = input.parse()?;
        input.parse::<Option<Token![,]>>()?;
        if input.is_empty() { Ok(Self(ty)) } else { Err(input.error("a type is all there can be")) }
    }
}

/// A backend's type, and the path of this library.
pub(crate) struct Chosen {
    pub(crate) backend: Type,
    pub(crate) krate: Option<Path>,
}

impl Chosen {
    pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Option<Self> {
        let read = |input: ParseStream<'_>| {
            let backend = input.parse()?;
            let mut krate = None;
            if input.parse::<Option<Token![,]>>()?.is_some() && !input.is_empty() {
                input.parse::<Token![crate]>()?;
                input.parse::<Token![=]>()?;
                krate = Some(match input.parse::<Option<syn::LitStr>>()? {
                    Some(text) => text.parse_with(Path::parse_mod_style)?,
                    None => input.call(Path::parse_mod_style)?,
                });
                input.parse::<Option<Token![,]>>()?;
            }
            if input.is_empty() { Ok(Self { backend, krate }) } else { Err(input.error("there is more")) }
        };
        match read.parse2(tokens) {
            Ok(chosen) => Some(chosen),
            Err(error) => {
                errors.at(
                    error.span(),
                    "`anarchon::backend!` takes the type of the store, as in `anarchon::backend!(SqliteBackend)`",
                );
                None
            }
        }
    }
}
