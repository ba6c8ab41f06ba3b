//! `anarchon::main!` and `anarchon::backend!`.

mod args;
mod expand;
mod window;

use proc_macro2::TokenStream;

use crate::diagnostic::Errors;

pub(crate) fn main(tokens: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let program = args::Program::parse(tokens, &mut errors);
    match errors.finish(program) {
        Ok(program) => expand::main(&program),
        // Without a main function the compiler would complain about that as well.
        Err(mut errors) => {
            errors.extend(quote::quote!(
                fn main() {}
            ));
            errors
        }
    }
}

pub(crate) fn backend(tokens: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let chosen = args::Chosen::parse(tokens, &mut errors);
    match errors.finish(chosen) {
        Ok(chosen) => expand::backend(&chosen),
        Err(errors) => errors,
    }
}
