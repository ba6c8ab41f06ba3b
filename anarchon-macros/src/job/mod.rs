//! `#[anarchon::job(…)]`.

mod args;
mod expand;
mod model;

use proc_macro2::TokenStream;

use crate::diagnostic::Errors;

/// The function as it was written, and behind it the job or what is wrong with it.
pub(crate) fn job(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let args = args::Args::parse(attribute, &mut errors);
    let function = model::Function::parse(item.clone(), &mut errors);
    let job = model::Job::check(args, function, &mut errors);
    let tail = match errors.finish(job) {
        Ok(job) => expand::expand(&job),
        Err(errors) => errors,
    };
    let mut output = item;
    output.extend(tail);
    output
}
