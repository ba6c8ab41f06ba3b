//! From tokens to tokens. What the compiler makes of them is for the crate `ui-tests`.

use proc_macro2::{TokenStream, TokenTree};
use quote::quote;

use crate::option::{JOB, Kind, MAIN, Opt, Table};
use crate::{entry, job, text};

fn notify() -> TokenStream {
    quote!(
        /// Says something.
        #[must_use]
        pub(crate) async fn notify(context: Context, State(pool): State<Pool>) -> Result<(), Error> {
            body(context, pool).await
        }
    )
}

/// The expansion of `#[job(options)]` on `notify`, behind the function.
fn expanded(options: &str) -> String {
    on(options, notify())
}

fn on(options: &str, function: TokenStream) -> String {
    let options: TokenStream = options.parse().unwrap();
    let expanded = job::job(options, function.clone()).to_string();
    let tail = expanded.strip_prefix(&function.to_string()).expect("the function comes first, unchanged");
    tail.trim().to_owned()
}

/// The messages of an expansion.
fn messages(tokens: &str) -> Vec<String> {
    let tokens: TokenStream = tokens.parse().unwrap();
    let mut messages = Vec::new();
    let mut before = String::new();
    for token in tokens {
        if let TokenTree::Group(group) = &token
            && before.ends_with("compile_error!")
        {
            let literal: syn::LitStr = syn::parse2(group.stream()).unwrap();
            messages.push(literal.value());
        }
        before.push_str(&token.to_string());
    }
    messages
}

fn refused(options: &str) -> Vec<String> {
    let messages = messages(&expanded(options));
    assert!(!messages.is_empty(), "{options} is accepted");
    messages
}

fn contains(text: &str, part: TokenStream) {
    // How tokens are spaced is nobody's promise.
    let dense = |text: &str| text.split_whitespace().collect::<String>();
    let part = part.to_string();
    assert!(dense(text).contains(&dense(&part)), "{part}\nis not in\n{text}");
}

#[test]
fn a_job_is_one_entry() {
    let tail = expanded(r#"every = "1h30m", offset = "5m", jitter = "2s", history_size = 7"#);
    assert_eq!(messages(&tail), [""; 0]);
    contains(&tail, quote!(name: "notify"));
    contains(&tail, quote!(__anarchon::EntrySchedule::Every { interval_ms: 5400000u64, offset_ms: 300000u64 }));
    contains(&tail, quote!(jitter_ms: ::core::option::Option::Some(2000u64)));
    contains(&tail, quote!(history_size: ::core::option::Option::Some(7u32)));
    assert_eq!(tail.matches("submit").count(), 1);
}

#[test]
fn a_cron_line_keeps_its_text_and_zone() {
    let tail = expanded(r#"cron = " 0 0 8 ? * 2-6 ", dialect = "quartz", timezone = "Europe/Paris", name = "a b""#);
    contains(&tail, quote!(name: "a b"));
    contains(&tail, quote!(expression: " 0 0 8 ? * 2-6 ", dialect: __anarchon::Dialect::Quartz));
    contains(&tail, quote!(timezone: ::core::option::Option::Some("Europe/Paris")));
    let tail = expanded(r#"cron = "@daily""#);
    contains(&tail, quote!(dialect: __anarchon::Dialect::Unix, timezone: ::core::option::Option::None));
}

#[test]
fn only_what_a_store_may_lack_is_asked_of_it() {
    let without = expanded(r#"every = "1h", timeout = "5m", max_late = "1m", history_size = 3, data = 1"#);
    assert!(!without.contains("crate"), "{without}");
    let with = expanded(r#"every = "1h", overlap = "allow", history_ttl = "1d""#);
    contains(&with, quote!(__anarchon::supports::<__AnarchonBackend, __anarchon::marker::overlap>()));
    contains(&with, quote!(__anarchon::supports_history_ttl::<__AnarchonBackend>()));
}

#[test]
fn a_renamed_crate_is_named_nowhere_else() {
    let options =
        r#"every = "1h", overlap = "skip", history_ttl = "1d", data = 1, retry_failed = "1s", crate = "renamed""#;
    let tail = expanded(options);
    contains(
        &tail,
        quote!(
            use renamed::__private as __anarchon;
        ),
    );
    let entry = entry::main(quote!(crate: "renamed", backend: B, lease: "15s", state: 7)).to_string();
    let alone = entry::backend(quote!(B, crate = "renamed")).to_string();
    for text in [tail, entry, alone] {
        assert!(!text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "anarchon"), "{text}");
    }
}

#[test]
fn the_function_is_emitted_unchanged_whatever_is_wrong() {
    for options in ["", "every", "every = ", "= = =", "every = \"10x\", every = 7, colour = {", "\"1h\"", "?"] {
        let Ok(tokens) = options.parse::<TokenStream>() else { continue };
        let text = job::job(tokens, notify()).to_string();
        assert!(text.starts_with(&notify().to_string()), "{options}");
        assert!(!messages(&text[notify().to_string().len()..]).is_empty(), "{options}");
    }
}

#[test]
fn an_unfinished_body_is_left_to_the_compiler() {
    let tail = on(r#"every = "1h""#, quote!(async fn notify() { let x = ; }));
    assert_eq!(messages(&tail), [""; 0]);
}

#[test]
fn all_mistakes_are_reported_in_the_order_they_were_made() {
    let found = refused(r#"every = "10x", colour = 1, max_attempts = 0, cron = "0 25 * * *", timeout = 5"#);
    let begin = ["not an interval", "unknown option", "`max_attempts`", "`timeout`", "`cron` cannot be", "hour 25"];
    assert_eq!(found.len(), begin.len(), "{found:#?}");
    for (message, begin) in found.iter().zip(begin) {
        assert!(message.starts_with(begin), "{message}");
    }
}

#[test]
fn one_mistake_is_one_message() {
    for options in [
        "",
        "every",
        "every = 10",
        "every = 1h",
        "every: \"1h\"",
        "every(\"1h\")",
        "every = \"1h\" = 7",
        "\"0 8 * * *\"",
        "cron = 0 8 * * *",
        "cron = * * * * *",
        "every = \"1h\", \"2h\"",
        "every = \"1h\", data",
        "every = \"1h\", data = ",
        "every = \"1h\", max_attempts = 0",
        "every = \"1h\", max_attempts = -1",
        "every = \"1h\", max_attempts = 99999999999",
        "every = \"1h\", max_attempts = 1.5",
        "every = \"1h\", overlap = skip",
        "every = \"1h\", offset = \"2h\"",
        "every = \"1h\", crate = 7",
        "every = \"1h\", crate = \"a b\"",
        "every = \"1h\", name = \"\\n\"",
        "at = \"2027-01-01T00:00:00\", overlap = \"skip\"",
        "at = \"2027-01-01T00:00:00\", offset = \"1h\"",
        "at = \"2027-01-01T00:00:00Z\", timezone = \"Asia/Tokyo\"",
        "cron = \"0 8 * * *\", timezone = \"Pari\"",
        "cron = \"0 8 * * *\", dialect = \"vixie\"",
        "cron = \"*/5 * * * *\", jitter = \"5m\"",
    ] {
        let found = refused(options);
        assert_eq!(found.len(), 1, "{options}: {found:#?}");
    }
}

#[test]
fn messages_are_in_lower_case_and_have_no_full_stop() {
    let options = r#"every = "10x", every = 1, cron = "0 25 * * *", at = "x", colour = 1, lease = 1, tz = 1, overlap = "q",
        max_attempts = 0, timeout = 0, name = "", dialect = "x", timezone = "x", history_size = "1", crate = 1, jitter"#;
    for message in refused(options) {
        let first = message.split('\n').next().unwrap_or_default();
        assert!(first.starts_with(|c: char| c.is_lowercase() || c == '`'), "{message}");
        assert!(!first.ends_with('.'), "{message}");
    }
}

#[test]
fn a_caret_is_drawn_where_the_compiler_cannot_point() {
    let found = refused(r#"cron = "0 25 * * *""#);
    assert!(found[0].contains("\n0 25 * * *\n  ^^\n"), "{}", found[0]);
}

#[test]
fn the_argument_decides_the_type_of_the_data() {
    let data = |function| on(r#"every = "1h", data = 7"#, function);
    contains(
        &data(quote!(
            async fn f(_: Data<u64>) {}
        )),
        quote!(__anarchon::data::<u64>(7)),
    );
    contains(
        &data(quote!(
            async fn f(_: a::Data<Vec<u8>>) {}
        )),
        quote!(__anarchon::data::<Vec<u8>>(7)),
    );
    contains(
        &data(quote!(
            async fn f(_: Alias) {}
        )),
        quote!(__anarchon::data(7)),
    );
    contains(
        &data(quote!(
            async fn f(_: Data<u8>, _: Data<u16>) {}
        )),
        quote!(__anarchon::data(7)),
    );
}

#[test]
fn functions_that_cannot_be_jobs_are_refused() {
    for (function, count) in [
        (
            quote!(
                fn f() {}
            ),
            1,
        ),
        (
            quote!(
                async fn f(&self) {}
            ),
            1,
        ),
        (
            quote!(
                async fn f<T>() {}
            ),
            1,
        ),
        (
            quote!(
                async fn f<'a>(x: &'a u8)
                where
                    'a: 'a,
                {
                }
            ),
            1,
        ),
        (
            quote!(
                async fn f(x: impl Sized) {}
            ),
            1,
        ),
        (
            quote!(
                unsafe fn f<T>(self, x: impl Sized) {}
            ),
            5,
        ),
        (
            quote!(
                async fn f(a: A, a: A, a: A, a: A, a: A, a: A, a: A, a: A, a: A) {}
            ),
            1,
        ),
        (
            quote!(
                struct F;
            ),
            1,
        ),
        (quote!(), 1),
    ] {
        let found = messages(&on(r#"every = "1h""#, function.clone()));
        assert_eq!(found.len(), count, "{function}: {found:#?}");
    }
}

#[test]
fn a_job_exists_under_the_conditions_of_its_function() {
    let tail = on(
        r#"every = "1h""#,
        quote!(
            #[cfg(unix)]
            #[doc = "x"]
            #[cfg(not(test))]
            async fn f() {}
        ),
    );
    assert!(tail.starts_with(&quote!(#[cfg(unix)] #[cfg(not(test))] const).to_string()), "{tail}");
}

/// Gives an option that stands alone, and with it what it needs.
fn alone(table: &'static Table, option: &Opt) -> String {
    let written = table.written(option, option.example);
    match option.name {
        "every" | "cron" | "at" | "backend" => written,
        "dialect" => format!("cron = \"0 0 8 * * ?\", {written}"),
        "timezone" if table.find("cron").is_some() => format!("cron = \"0 8 * * *\", {written}"),
        _ if table.find("every").is_some() => format!("every = \"1h\", {written}"),
        _ => written,
    }
}

#[test]
fn every_option_of_the_tables_is_read() {
    for option in JOB.options {
        let options = alone(&JOB, option);
        assert_eq!(messages(&expanded(&options)), [""; 0], "{options}");
        let field = match option.kind {
            Kind::Interval if !["every", "offset"].contains(&option.name) => format!("{}_ms :", option.name),
            Kind::Count => format!("{} :", option.name),
            _ => continue,
        };
        assert!(expanded(&options).contains(&field), "{options}");
    }
    for option in MAIN.options {
        let fields = alone(&MAIN, option);
        let text = entry::main(fields.parse().unwrap()).to_string();
        assert!(!text.contains("compile_error"), "{fields}: {text}");
        let called = text.contains(&format!(". {} (", option.name));
        assert_eq!(called, !matches!(option.kind, Kind::Backend | Kind::Path), "{fields}: {text}");
    }
}

#[test]
fn every_option_of_the_tables_is_documented_in_their_order() {
    for (table, page) in [(&JOB, include_str!("docs/job.md")), (&MAIN, include_str!("docs/main.md"))] {
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
        let documented: Vec<&str> = rows.map(|(name, _)| name).collect();
        let options: Vec<&str> = table.options.iter().map(|option| option.name).collect();
        assert_eq!(documented, options, "{}", table.place);
    }
}

#[test]
fn a_word_that_is_no_option_is_explained() {
    assert_eq!(JOB.unknown("evrey"), "unknown option `evrey`; did you mean `every`?");
    assert_eq!(JOB.unknown("tz"), "unknown option `tz`; did you mean `timezone`?");
    let expected = "`lease` is an option of the scheduler, not of a job; set it in `anarchon::main!`";
    assert_eq!(JOB.unknown("lease"), expected);
    assert_eq!(MAIN.unknown("data"), "unknown option `data`; did you mean `state`?");
    assert!(JOB.unknown("colour").contains("are `every`, `cron`"), "{}", JOB.unknown("colour"));
}

#[test]
fn a_value_without_its_option_is_recognised() {
    assert_eq!(text::looks_like("1h"), Some("every"));
    assert_eq!(text::looks_like("0 8 * * *"), Some("cron"));
    assert_eq!(text::looks_like("2027-01-01T00:00:00Z"), Some("at"));
    assert_eq!(text::looks_like("hourly"), None);
}

#[test]
fn a_program_is_written_in_the_order_of_its_fields() {
    let text = entry::main(quote!(state: a, lease: "15s", backend: B = b().await?, state: c,)).to_string();
    let at = |part: TokenStream| text.find(&part.to_string()).unwrap_or_else(|| panic!("{part} is not in {text}"));
    let parts = [quote!(b().await?), quote!(.state(a)), quote!(.lease("15s")), quote!(.state(c))].map(at);
    assert!(parts.is_sorted(), "{parts:?}");
    assert!(entry::main(quote!()).to_string().contains("AnyBackend"));
    contains(&entry::main(quote!(my::Backend<u8>)).to_string(), quote!(begin::<my::Backend<u8>>));
}

#[test]
fn history_must_outlast_a_window_that_is_spelled_out() {
    let program = |window: &str, ttl: &str| {
        let fields = format!("backend: RedisBackend<Script> = {window}, history_ttl: {ttl}");
        entry::main(fields.parse().unwrap()).to_string()
    };
    let by = |window: &str| format!("RedisBackend::new(url()?).strategy(redis::Script::new({window})).prefix(\"a:\")");
    for (window, shown) in [
        ("Duration::from_secs(600)", "`10m`"),
        ("std::time::Duration::from_hours(1)", "`1h`"),
        ("Duration::from_millis(600_000)", "`10m`"),
    ] {
        let refused = messages(&program(&by(window), "\"10m\""));
        assert!(matches!(&refused[..], [message] if message.contains(shown)), "{window}: {refused:?}");
        let written = program(&by(window), "\"61m\"");
        assert_eq!(messages(&written), [""; 0]);
        contains(&written, quote!(pub(crate) const __ANARCHON_WINDOW_MS: u64 =));
    }
    // Whatever else it is, only the runtime can tell.
    for window in ["WINDOW", "Duration::from_secs(window())", "Duration::from_secs(60, 0)", "Duration::from_days(1)"] {
        assert!(!program(&by(window), "\"1s\"").contains("WINDOW_MS"), "{window}");
    }
    assert!(!program(&by("Duration::from_secs(600)"), "ttl()").contains("compile_error"));
}

#[test]
fn expressions_in_a_program_are_left_to_the_runtime() {
    let fields = quote!(lease: LEASE, timeout: Duration::ZERO, timezone: &zone()?, history_size: n(), instance_id: id);
    assert!(!entry::main(fields).to_string().contains("compile_error"));
}

#[test]
fn mistakes_in_a_program_are_reported_together() {
    let fields = quote!(lease: 15, watch = "2s", heartbeat: "5", timezone: "Pari", history_size: 0, colour: 1, timeout: "0s",
        backend: B::new(), forget_after: -1, instance_id: 7, overlap: "skip");
    let found = messages(&entry::main(fields.clone()).to_string());
    assert_eq!(found.len(), 11, "{found:#?}");
    let text = entry::main(fields).to_string();
    assert!(text.contains("fn main"), "a missing main function would be one more error");
}

#[test]
fn no_tokens_make_it_panic() {
    let words =
        ["every", "=", ":", "\"1h\"", ",", "(x)", "{", "}", "cron", "1.5e3", "'a", "b\"x\"", "::", "backend", "-", "#"];
    let mut state = 7_u64;
    for _ in 0..3_000 {
        let mut text = String::new();
        for _ in 0..(state >> 40) % 9 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push_str(words[(state >> 33) as usize % words.len()]);
            text.push(' ');
        }
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let Ok(tokens) = text.parse::<TokenStream>() else { continue };
        job::job(tokens.clone(), notify());
        job::job(quote!(every = "1h"), tokens.clone());
        entry::main(tokens.clone());
        entry::backend(tokens);
    }
}
