//! Writes the alias and the program out. Nothing here can fail.

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

/// The alias that the assertions of `#[anarchon::job]` find, and the proof that it is where they look.
fn alias(backend: &Type, krate: &TokenStream) -> TokenStream {
    let alias = Ident::new("__AnarchonBackend", backend.span());
    // With its own name resolution: what `crate::*` holds, or else the outer name, which belongs to no crate root.
    let asserted = quote_spanned! {backend.span()=>
        #krate::__private::assert_at_root::<__AnarchonBackend, #backend>(::core::module_path!());
    };
    quote! {
        #[doc(hidden)]
        #[allow(dead_code)]
        pub(crate) type #alias = #backend;

        const _: () = {
            #[allow(unused_imports)]
            use #krate::__private::fallback::__AnarchonBackend;
            {
                #[allow(unused_imports)]
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
    let connected = match &program.connected {
        Some(value) => quote!(#value),
        None => quote_spanned!(backend.span()=> #krate::__private::from_env::<#backend>()?),
    };
    let scheduler = Ident::new("scheduler", Span::mixed_site());
    let value = Ident::new("value", Span::mixed_site());
    let calls = program.calls.iter().map(|(key, expression)| {
        let call = quote_spanned!(key.span()=> #scheduler.#key(#value));
        quote! {
            let #value = #expression;
            let #scheduler = #call;
        }
    });
    let run = quote_spanned!(backend.span()=> #krate::__private::run_main::<#backend, _>);
    quote! {
        #alias

        fn main() -> ::std::process::ExitCode {
            #run(async {
                let #value: #backend = #connected;
                let #scheduler = #krate::Scheduler::builder(#value).registered();
                #(#calls)*
                ::core::result::Result::Ok(#scheduler)
            })
        }
    }
}
