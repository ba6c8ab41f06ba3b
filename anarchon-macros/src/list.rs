//! Reads a list of options with their values, and goes on after a mistake.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::spanned::Spanned;
use syn::{Expr, Lit, Path, PathArguments, Token, Type};

use crate::diagnostic::Errors;
use crate::option::{Kind, Opt, Table};

/// One option as it was written, its value not yet read.
pub(crate) struct Given {
    pub(crate) key: Ident,
    pub(crate) option: &'static Opt,
    pub(crate) value: Value,
}

pub(crate) enum Value {
    /// There is none, or nothing that can be one; this has been reported.
    Missing,
    Expr(Box<Expr>),
    Backend(Box<Type>, Option<Box<Expr>>),
}

/// Hands every option to `take`, each once unless it repeats, in the order in which they were written.
pub(crate) fn parse(
    tokens: TokenStream,
    table: &'static Table,
    errors: &mut Errors,
    mut take: impl FnMut(Given, &mut Errors),
) {
    let mut seen: Vec<&'static str> = Vec::new();
    let read = |input: ParseStream<'_>| {
        while !input.is_empty() {
            if let Some(given) = one(input, table, errors) {
                let twice = seen.contains(&given.option.name) && !given.option.repeats;
                if twice && !matches!(given.value, Value::Missing) {
                    errors.at(given.key.span(), format!("`{}` is given twice; leave out one of them", given.key));
                } else if !twice {
                    seen.push(given.option.name);
                    take(given, errors);
                }
            }
            if !input.is_empty() && input.parse::<Option<Token![,]>>()?.is_none() {
                errors.at(input.span(), "a comma is missing before this");
            }
        }
        Ok(())
    };
    if let Err(error) = read.parse2(tokens) {
        errors.push(error);
    }
}

/// One option; stops before the comma, or where a comma should be.
fn one(input: ParseStream<'_>, table: &'static Table, errors: &mut Errors) -> Option<Given> {
    if !input.peek(syn::Ident::peek_any) {
        return nameless(input, table, errors);
    }
    let key = input.call(Ident::parse_any).ok()?;
    let Some(option) = table.find(&key.to_string()) else {
        errors.at(key.span(), table.unknown(&key.to_string()));
        skip(input);
        return None;
    };
    let value = value(input, &key, option, table).unwrap_or_else(|(span, message)| {
        errors.at(span, message);
        skip(input);
        Value::Missing
    });
    Some(Given { key, option, value })
}

fn value(input: ParseStream<'_>, key: &Ident, option: &Opt, table: &Table) -> Result<Value, (Span, String)> {
    let ended = || input.is_empty() || input.peek(Token![,]);
    let example = table.written(option, option.example);
    let needed = || (key.span(), format!("`{key}` needs a value; write `{example}`"));
    if ended() {
        return Err(needed());
    }
    let separator = input.span();
    let form = || (separator, format!("write `{}` between an option and its value: `{example}`", table.between.trim()));
    let right = match table.between.trim() {
        "=" => input.peek(Token![=]) && !input.peek(Token![==]),
        _ => input.peek(Token![:]) && !input.peek(Token![::]),
    };
    if !right {
        return Err(form());
    }
    let _: syn::Result<TokenTree> = input.parse();
    if ended() {
        return Err(needed());
    }
    let start = input.span();
    if option.kind == Kind::Backend {
        return backend(input).map_err(|error| (error.span(), error.to_string()));
    }
    let expr = input.parse::<Expr>();
    // What is no expression, or more than one, is told what is wanted instead of what a parser expects.
    let readable = match &expr {
        Ok(Expr::Lit(lit)) => ended() || matches!(lit.lit, Lit::Str(_)),
        Ok(_) => true,
        Err(_) => false,
    };
    match expr {
        Ok(expr) if readable => Ok(Value::Expr(Box::new(ungrouped(expr)))),
        Err(error) if option.kind == Kind::Expression => Err((error.span(), error.to_string())),
        _ => Err((start, format!("`{key}` cannot be read; write `{example}`"))),
    }
}

/// A value with no option before it: say which one it looks like.
fn nameless(input: ParseStream<'_>, table: &'static Table, errors: &mut Errors) -> Option<Given> {
    let span = input.span();
    let text = input.parse::<syn::LitStr>().map(|literal| literal.value()).unwrap_or_default();
    skip(input);
    let looks = crate::text::looks_like(&text).and_then(|name| table.find(name));
    let option = looks.or(table.options.first())?;
    let value = looks.map_or_else(|| option.example.to_owned(), |_| format!("{text:?}"));
    errors.at(span, format!("an option is missing before this value; write `{}`", table.written(option, &value)));
    Some(Given { key: Ident::new(option.name, span), option, value: Value::Missing })
}

fn backend(input: ParseStream<'_>) -> syn::Result<Value> {
    const FORM: &str =
        "`backend` takes the backend's type, and then its value: `backend: MyBackend = MyBackend::new(…)`";
    let start = input.span();
    let ty: Type = input.parse().map_err(|_| syn::Error::new(start, FORM))?;
    let called = matches!(&ty, Type::Path(path) if path.path.segments.iter().any(|s| matches!(s.arguments, PathArguments::Parenthesized(_))));
    if called || !(input.is_empty() || input.peek(Token![,]) || input.peek(Token![=])) {
        return Err(syn::Error::new(start, FORM));
    }
    let value = match input.parse::<Option<Token![=]>>()? {
        Some(_) => Some(Box::new(input.parse::<Expr>()?)),
        None => None,
    };
    Ok(Value::Backend(Box::new(ty), value))
}

/// A literal that a `macro_rules!` macro passed on comes in an invisible group.
fn ungrouped(expr: Expr) -> Expr {
    match expr {
        Expr::Group(group) => ungrouped(*group.expr),
        other => other,
    }
}

/// Goes to the next comma.
fn skip(input: ParseStream<'_>) {
    while !input.is_empty() && !input.peek(Token![,]) {
        if input.parse::<TokenTree>().is_err() {
            break;
        }
    }
}

impl Given {
    /// The value, which is an expression for all options but `backend`.
    pub(crate) fn expr(&self) -> Option<&Expr> {
        match &self.value {
            Value::Expr(expr) => Some(expr),
            Value::Backend(..) | Value::Missing => None,
        }
    }

    /// The value's literal, if it is one.
    pub(crate) fn literal(&self) -> Option<&Lit> {
        match self.expr()? {
            Expr::Lit(expr) => Some(&expr.lit),
            _ => None,
        }
    }

    /// The place of the value.
    pub(crate) fn span(&self) -> Span {
        match &self.value {
            Value::Expr(expr) => expr.span(),
            Value::Backend(ty, _) => ty.span(),
            Value::Missing => self.key.span(),
        }
    }

    /// The path of this library in `crate = "renamed"`.
    pub(crate) fn path(&self, errors: &mut Errors) -> Option<Path> {
        let expr = self.expr()?;
        let path = match expr {
            Expr::Path(expr) if expr.qself.is_none() => Some(expr.path.clone()),
            Expr::Lit(_) => match self.literal()? {
                Lit::Str(text) => text.parse_with(Path::parse_mod_style).ok(),
                _ => None,
            },
            _ => None,
        };
        if path.is_none() {
            errors.on(
                expr,
                "`crate` takes the path of the anarchon crate; write `\"renamed\"` or `\"renamed::anarchon\"`",
            );
        }
        path
    }
}
