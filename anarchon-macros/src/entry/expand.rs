//! Writes the alias and the program out. Nothing here can fail.

use std::time::Duration;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Path, Type};

use super::args::{Chosen, Program};

fn path(krate: &Option<Path>) -> TokenStream {
    match krate {
        Some(path) => quote!(#path),
        None => quote!(::anarchon),
    }
}

/// What the jobs of the crate compare their `history_ttl` with.
fn window(window: Option<Duration>, krate: &TokenStream) -> TokenStream {
    let Some(window) = window else { return TokenStream::new() };
    let ms = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
    quote! {
        #[doc(hidden)]
        pub(crate) const __ANARCHON_WINDOW_MS: u64 = #ms;
        // No job may ask for it.
        const _: () = #krate::__private::assert_outlasts_window(u64::MAX, __ANARCHON_WINDOW_MS);
    }
}

/// The alias that the assertions of `#[anarchon::job]` find, and the proof that it is where they look.
fn alias(backend: &Type, krate: &TokenStream) -> TokenStream {
    // With its own name resolution: what `crate::*` holds, or else the outer name, which belongs to no crate root.
    let asserted = quote_spanned! {backend.span()=>
        __anarchon::assert_at_root::<__AnarchonBackend, #backend>(::core::module_path!());
    };
    // All of it at the backend: that is where a second one is pointed out.
    let alias = quote_spanned! {backend.span()=>
        #[doc(hidden)]
        pub(crate) type __AnarchonBackend = #backend;
    };
    quote! {
        #alias
        const _: () = {
            use #krate::__private as __anarchon;
            use __anarchon::fallback::__AnarchonBackend;
            {
                use crate::*;
                #asserted
            }
        };
    }
}

pub(crate) fn backend(chosen: &Chosen) -> TokenStream {
    alias(&chosen.backend, &path(&chosen.krate))
}

pub(crate) fn main(program: &Program) -> TokenStream {
    let krate = path(&program.krate);
    let backend: Type = match &program.backend {
        Some(backend) => backend.clone(),
        None => syn::parse_quote!(#krate::AnyBackend),
    };
    let alias = alias(&backend, &krate);
    let window = window(program.window, &krate);
    let begun = match &program.connected {
        // The type of the field decides, as in a `let`.
        Some(value) => quote!({
            let __anarchon_backend: #backend = #value;
            #krate::__private::begin_on(__anarchon_backend)
        }),
        None => quote_spanned!(backend.span()=> #krate::__private::begin::<#backend>()?),
    };
    // A name that no user's expression can see.
    let scheduler = Ident::new("__anarchon_scheduler", Span::mixed_site());
    let calls = program.calls.iter().map(|(key, expression)| {
        let call = quote_spanned!(key.span()=> #scheduler.#key(#expression));
        quote!(let #scheduler = #call;)
    });
    quote! {
        #alias
        #window

        fn main() -> ::std::process::ExitCode {
            #krate::__private::run_main(async {
                let #scheduler = #begun;
                #(#calls)*
                ::core::result::Result::Ok(#scheduler)
            })
        }
    }
}
