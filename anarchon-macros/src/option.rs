//! The table of options: what each is called, what it takes, and where it belongs. Reading, suggestions and the tests
//! of the documentation all go by it.

use anarchon_schedule::suggest;

use crate::diagnostic::list;

/// What an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A text such as `"10s"`.
    Interval,
    /// Another text that is read at compile time.
    Text,
    /// A whole number.
    Count,
    /// Any expression.
    Expression,
    /// A backend's type, and maybe a value of it.
    Backend,
    /// The path of this library.
    Path,
}

/// One option.
#[derive(Debug)]
pub(crate) struct Opt {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// A value as one would write it.
    pub(crate) example: &'static str,
    /// Not every store can honour it, so the chosen one is asked.
    pub(crate) marked: bool,
    /// May be given more than once.
    pub(crate) repeats: bool,
    /// What others call it.
    pub(crate) also: &'static [&'static str],
}

const fn opt(name: &'static str, kind: Kind, example: &'static str, also: &'static [&'static str]) -> Opt {
    Opt { name, kind, example, marked: false, repeats: false, also }
}

const fn marked(name: &'static str, kind: Kind, example: &'static str, also: &'static [&'static str]) -> Opt {
    Opt { marked: true, ..opt(name, kind, example, also) }
}

/// A place where options are given.
#[derive(Debug)]
pub(crate) struct Table {
    /// How messages call it.
    pub(crate) place: &'static str,
    /// What stands between an option and its value, with its blanks.
    pub(crate) between: &'static str,
    pub(crate) options: &'static [Opt],
}

/// The options of `#[anarchon::job(…)]`.
pub(crate) static JOB: Table = Table {
    place: "#[anarchon::job(…)]",
    between: " = ",
    options: &[
        opt("every", Kind::Interval, "\"1h\"", &["interval", "period", "rate"]),
        opt("cron", Kind::Text, "\"0 8 * * MON-FRI\"", &["schedule", "expression", "crontab"]),
        opt("at", Kind::Text, "\"2027-01-01T00:00:00\"", &["once", "when", "date"]),
        opt("dialect", Kind::Text, "\"quartz\"", &["format"]),
        opt("offset", Kind::Interval, "\"5m\"", &["shift", "delay"]),
        opt("timezone", Kind::Text, "\"Europe/Paris\"", &["tz", "zone"]),
        opt("jitter", Kind::Interval, "\"2s\"", &["spread", "splay"]),
        opt("max_late", Kind::Interval, "\"1m\"", &["grace", "deadline"]),
        opt("timeout", Kind::Interval, "\"5m\"", &["limit"]),
        opt("data", Kind::Expression, "Region::Europe", &["args", "input", "payload"]),
        opt("history_size", Kind::Count, "100", &["history", "keep"]),
        marked("history_ttl", Kind::Interval, "\"30d\"", &["ttl", "retention"]),
        marked("overlap", Kind::Text, "\"skip\"", &["concurrency", "concurrent", "parallel"]),
        marked("max_attempts", Kind::Count, "3", &["attempts", "retries", "max_retries"]),
        marked("retry_failed", Kind::Interval, "\"10s\"", &["retry", "backoff"]),
        marked("catch_up", Kind::Interval, "\"10m\"", &["misfire", "backfill"]),
        marked("takeover_within", Kind::Interval, "\"1h\"", &["takeover"]),
        opt("name", Kind::Text, "\"nightly export\"", &["id", "job"]),
        opt("crate", Kind::Path, "\"renamed\"", &[]),
    ],
};

/// The fields of `anarchon::main! { … }`.
pub(crate) static MAIN: Table = Table {
    place: "anarchon::main!",
    between: ": ",
    options: &[
        opt("backend", Kind::Backend, "SqliteBackend", &["store", "database"]),
        Opt { repeats: true, ..opt("state", Kind::Expression, "AppState::new()", &["data", "with_state"]) },
        opt("timezone", Kind::Text, "\"Europe/Paris\"", &["tz", "zone"]),
        opt("jitter", Kind::Interval, "\"2s\"", &["spread", "splay"]),
        opt("max_late", Kind::Interval, "\"1m\"", &["grace"]),
        opt("timeout", Kind::Interval, "\"5m\"", &["limit"]),
        opt("history_size", Kind::Count, "100", &["history", "keep"]),
        marked("history_ttl", Kind::Interval, "\"30d\"", &["ttl", "retention"]),
        marked("lease", Kind::Interval, "\"15s\"", &["lock", "lock_ttl"]),
        marked("heartbeat", Kind::Interval, "\"5s\"", &["renew"]),
        marked("watch", Kind::Interval, "\"2s\"", &["poll"]),
        opt("stop_grace", Kind::Interval, "\"5s\"", &["shutdown", "shutdown_timeout"]),
        opt("instance_id", Kind::Text, "\"worker-1\"", &["instance", "id"]),
        opt("forget_after", Kind::Interval, "\"30d\"", &["forget"]),
        opt("crate", Kind::Path, "\"renamed\"", &[]),
    ],
};

impl Table {
    pub(crate) fn find(&'static self, name: &str) -> Option<&'static Opt> {
        self.options.iter().find(|option| option.name == name)
    }

    /// `every = "1h"`: an option as it is written here.
    pub(crate) fn written(&self, option: &Opt, value: &str) -> String {
        format!("{}{}{value}", option.name, self.between)
    }

    /// What to say about a word that is no option here.
    pub(crate) fn unknown(&'static self, word: &str) -> String {
        let names = || self.options.iter().map(|option| option.name);
        let elsewhere = if std::ptr::eq(self, &JOB) { &MAIN } else { &JOB };
        let owner = if std::ptr::eq(elsewhere, &MAIN) { "the scheduler" } else { "a job" };
        if elsewhere.find(word).is_some() && word != "data" {
            return format!(
                "`{word}` is an option of {owner}, not of {}; set it in `{}`",
                self.owner(),
                elsewhere.place
            );
        }
        let synonym = || self.options.iter().find(|option| option.also.contains(&word)).map(|option| option.name);
        match synonym().or_else(|| suggest::closest(word, names())) {
            Some(meant) => format!("unknown option `{word}`; did you mean `{meant}`?"),
            None => format!("unknown option `{word}`; the options of {} are {}", self.owner(), list(names())),
        }
    }

    fn owner(&self) -> &'static str {
        if std::ptr::eq(self, &JOB) { "a job" } else { "the scheduler" }
    }
}
