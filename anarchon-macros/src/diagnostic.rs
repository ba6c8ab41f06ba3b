//! Errors at the tokens that caused them, collected so that one build reports every mistake.

use std::fmt::Display;

use anarchon_schedule::ParseError;
use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::LitStr;

/// The mistakes found so far.
#[derive(Debug, Default)]
pub(crate) struct Errors(Vec<syn::Error>);

impl Errors {
    /// A mistake at one token.
    pub(crate) fn at(&mut self, span: Span, message: impl Display) {
        self.push(syn::Error::new(span, message));
    }

    /// A mistake that spans all of `tokens`.
    pub(crate) fn on(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.push(syn::Error::new_spanned(tokens, message));
    }

    /// A text that the grammar refuses.
    ///
    /// Stable Rust knows no place inside a literal, so the message draws its own caret unless the whole text is meant.
    pub(crate) fn text(&mut self, literal: &LitStr, error: &ParseError) {
        let text = literal.value();
        let part = error.span().filter(|span| *span != (0..text.len()));
        let Some(part) = part else { return self.at(literal.span(), error) };
        let token = literal.token();
        // Only in a plain literal are the bytes of the text those of the source.
        let plain = token.to_string() == format!("\"{text}\"");
        match token.subspan(part.start + 1..part.end + 1).filter(|_| plain) {
            Some(span) => self.at(span, error),
            None => self.at(literal.span(), format!("{error}\n\n{}\n", error.caret(&text))),
        }
    }

    pub(crate) fn push(&mut self, error: syn::Error) {
        self.0.push(error);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// `value` if nothing was wrong, or else every mistake as a `compile_error!`.
    pub(crate) fn finish<T>(mut self, value: Option<T>) -> Result<T, TokenStream> {
        match value {
            Some(value) if self.0.is_empty() => return Ok(value),
            // Whoever gives no value has said why; this only keeps silence from passing for success.
            None if self.0.is_empty() => self.at(Span::call_site(), "this cannot be read"),
            _ => {}
        }
        Err(self.0.iter().map(syn::Error::to_compile_error).collect())
    }
}

/// `a`, `b` and `c`, in backticks.
pub(crate) fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}
