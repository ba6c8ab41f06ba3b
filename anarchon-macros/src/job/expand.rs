//! Writes a checked job out. Nothing here can fail.

use anarchon_schedule::Dialect;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::Type;
use syn::spanned::Spanned as _;

use super::args::{Number, Overlap};
use super::model::{Checked, Job};

/// What follows the function: one entry in the registry, and the assertions that only the compiler can decide.
pub(crate) fn expand(job: &Job) -> TokenStream {
    let krate = match &job.krate {
        Some(path) => quote!(#path),
        None => quote!(::anarchon),
    };
    let Job { name, .. } = job;
    let cfgs = &job.function.cfgs;
    let schedule = schedule(&job.when);
    let options = options(job);
    let handler = handler(job);
    let data = data(job);
    let assertions = assertions(job);
    quote! {
        #(#cfgs)*
        const _: () = {
            use #krate::__private as __anarchon;
            __anarchon::inventory::submit! {
                __anarchon::JobEntry {
                    name: #name,
                    schedule: #schedule,
                    options: #options,
                    handler: #handler,
                    data: #data,
                    place: __anarchon::Place { file: ::core::file!(), line: ::core::line!() },
                }
            }
            #assertions
        };
    }
}

fn optional<T: quote::ToTokens>(value: Option<T>) -> TokenStream {
    match value {
        Some(value) => quote!(::core::option::Option::Some(#value)),
        None => quote!(::core::option::Option::None),
    }
}

fn schedule(when: &Checked) -> TokenStream {
    match when {
        Checked::Every { interval_ms, offset_ms } => {
            quote!(__anarchon::EntrySchedule::Every { interval_ms: #interval_ms, offset_ms: #offset_ms })
        }
        Checked::Cron { expression, dialect, timezone } => {
            let dialect = match dialect {
                Dialect::Unix => quote!(Unix),
                Dialect::Quartz => quote!(Quartz),
            };
            let timezone = optional(timezone.as_ref());
            quote!(__anarchon::EntrySchedule::Cron {
                expression: #expression,
                dialect: __anarchon::Dialect::#dialect,
                timezone: #timezone,
            })
        }
        Checked::At { time, timezone } => {
            let timezone = optional(timezone.as_ref());
            quote!(__anarchon::EntrySchedule::At { time: #time, timezone: #timezone })
        }
    }
}

fn options(job: &Job) -> TokenStream {
    let numbers = job.numbers.iter().map(|(key, number)| match number {
        Number::Count(value) => {
            let field = Ident::new(&key.to_string(), Span::call_site());
            quote!(#field: ::core::option::Option::Some(#value),)
        }
        Number::Ms(value) => {
            let field = format_ident!("{}_ms", key.to_string(), span = Span::call_site());
            quote!(#field: ::core::option::Option::Some(#value),)
        }
    });
    let overlap = job.overlap.map(|overlap| match overlap {
        Overlap::Skip => quote!(overlap: ::core::option::Option::Some(__anarchon::Overlap::Skip),),
        Overlap::Allow => quote!(overlap: ::core::option::Option::Some(__anarchon::Overlap::Allow),),
    });
    quote!(__anarchon::EntryOptions { #(#numbers)* #overlap ..__anarchon::EntryOptions::NONE })
}

/// Each bound is asked for in one place, so that a wrong argument or return type is one error, at that type.
fn handler(job: &Job) -> TokenStream {
    let function = &job.function;
    let ident = &function.ident;
    let parts = Ident::new("__anarchon_parts", Span::mixed_site());
    let names: Vec<Ident> =
        (0..function.arguments.len()).map(|n| Ident::new(&format!("__anarchon_{n}"), Span::mixed_site())).collect();
    let arguments = function.arguments.iter().map(|ty| quote_spanned!(ty.span()=> __anarchon::argument::<#ty>()));
    let call = quote_spanned!(ident.span()=> #ident(#(#names.take(#parts)?),*));
    let outcome = quote_spanned!(function.output=> __anarchon::outcome);
    quote! {
        || {
            #(let #names = #arguments;)*
            __anarchon::handler(
                [#(#names.need()),*],
                move |#parts| ::core::result::Result::Ok(__anarchon::run(#call, #outcome)),
            )
        }
    }
}

fn data(job: &Job) -> TokenStream {
    let data = job.data.as_ref().map(|value| {
        let value = match job.function.data() {
            // The argument's type decides what a literal is, and a wrong one is an error at the value.
            Some(ty) => quote_spanned!(value.span()=> __anarchon::data::<#ty>(#value)),
            None => quote_spanned!(value.span()=> __anarchon::data(#value)),
        };
        quote!(|| #value)
    });
    optional(data)
}

/// Asks the backend that the crate named, or one that can do anything if it named none.
///
/// The inner glob import finds the alias at the crate root when there is one; otherwise the name means the outer one.
/// What it also finds there must not change what an argument's type means, so that is named outside of it.
fn assertions(job: &Job) -> TokenStream {
    let options = job.marked.iter().map(|key| {
        let option = Ident::new(&key.to_string(), key.span());
        let supports = match key == "history_ttl" {
            true => quote_spanned!(key.span()=> supports_history_ttl::<__AnarchonBackend>()),
            false => quote_spanned!(key.span()=> supports::<__AnarchonBackend, __anarchon::marker::#option>()),
        };
        quote_spanned!(key.span()=> const _: () = __anarchon::#supports;)
    });
    let databases: Vec<&Type> = job.function.databases().collect();
    // At the arguments, where the compiler then points.
    let numbered = databases.iter().enumerate();
    let names: Vec<Ident> = numbered.map(|(n, ty)| format_ident!("__AnarchonArgument{n}", span = ty.span())).collect();
    let arguments = databases.iter().zip(&names).map(|(ty, name)| {
        let taken = quote_spanned!(ty.span()=> taken_on::<__AnarchonBackend, #name>());
        quote_spanned!(ty.span()=> const _: () = __anarchon::#taken;)
    });
    let window = job.numbers.iter().filter_map(|(key, number)| match number {
        Number::Ms(ttl) if key == "history_ttl" => {
            let outlasts = quote_spanned!(key.span()=> assert_outlasts_window(#ttl, __ANARCHON_WINDOW_MS));
            Some(quote_spanned!(key.span()=> const _: () = __anarchon::#outlasts;))
        }
        _ => None,
    });
    let outer = job.numbers.iter().any(|(key, _)| key == "history_ttl");
    let outer = outer.then(|| {
        quote!(
            use __anarchon::fallback::__ANARCHON_WINDOW_MS;
        )
    });
    // Most names fit any store.
    let plain = job.name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    let name = (!plain).then(|| {
        let takes = quote_spanned!(job.named=> takes_any_name::<__AnarchonBackend>());
        quote_spanned!(job.named=> const _: () = __anarchon::#takes;)
    });
    let asserts: Vec<TokenStream> = options.chain(arguments).chain(window).chain(name).collect();
    if asserts.is_empty() {
        return TokenStream::new();
    }
    quote! {
        use __anarchon::fallback::__AnarchonBackend;
        #outer
        #(type #names = #databases;)*
        const _: () = {
            use crate::*;
            #(#asserts)*
        };
    }
}
