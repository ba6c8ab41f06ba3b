//! The macros of [anarchon](https://docs.rs/anarchon), which re-exports them: use them from there.
//!
//! Text becomes a description here and nothing else: each macro reads its options (`args`), checks them against each
//! other (`model`), and writes out what it found (`expand`). All mistakes are reported at once, each at its own token.

mod diagnostic;
mod entry;
mod job;
mod list;
mod option;
#[cfg(test)]
mod tests;
mod text;

use proc_macro::TokenStream;

#[doc = include_str!("docs/job.md")]
#[proc_macro_attribute]
pub fn job(options: TokenStream, function: TokenStream) -> TokenStream {
    job::job(options.into(), function.into()).into()
}

#[doc = include_str!("docs/main.md")]
#[proc_macro]
pub fn main(input: TokenStream) -> TokenStream {
    entry::main(input.into()).into()
}

#[doc = include_str!("docs/backend.md")]
#[proc_macro]
pub fn backend(input: TokenStream) -> TokenStream {
    entry::backend(input.into()).into()
}
