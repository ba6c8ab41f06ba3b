//! What a command answers, and how it is printed.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use serde_json::{Value, json};

use super::table::{Line, Style};
use crate::error::Error;
use crate::scheduler::entry::describe;

/// The answer of a command, in both forms.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) json: Value,
    pub(super) lines: Vec<Line>,
    pub(super) code: u8,
}

impl Output {
    pub(super) fn new(json: Value, lines: Vec<Line>) -> Self {
        Self { json, lines, code: 0 }
    }

    pub(super) fn print(self, json: bool) -> ExitCode {
        if json {
            print_json(&self.json);
        } else {
            let (width, colours) = (columns(), colours());
            let text: String = self.lines.iter().map(|line| line.render(width, colours)).collect();
            // Who does not read it to its end has seen enough.
            let _ = std::io::stdout().lock().write_all(text.as_bytes());
        }
        ExitCode::from(self.code)
    }
}

/// Why a command has no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// It failed, in words.
    Failed(String),
    /// Neither the program nor the store knows the job; perhaps this one was meant.
    UnknownJob { job: String, meant: Option<String> },
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::UnknownJob(job) => Self::UnknownJob { job, meant: None },
            error => Self::Failed(describe(&error)),
        }
    }
}

impl Failure {
    /// Nobody knows this job; perhaps one of these was meant.
    pub(super) fn unknown_job<'a>(job: &str, known: impl Iterator<Item = &'a str>) -> Self {
        let meant = anarchon_schedule::suggest::closest(job, known);
        Self::UnknownJob { job: job.to_owned(), meant: meant.map(str::to_owned) }
    }

    pub(super) fn print(self, json: bool) -> ExitCode {
        let (code, message) = match self {
            Self::Failed(message) => (1, message),
            Self::UnknownJob { job, meant: None } => (4, format!("there is no job named {job:?}")),
            Self::UnknownJob { job, meant: Some(meant) } => {
                (4, format!("there is no job named {job:?}; did you mean {meant:?}?"))
            }
        };
        if json {
            print_json(&json!({ "error": message }));
        }
        let _ = writeln!(std::io::stderr().lock(), "anarchon: {message}");
        ExitCode::from(code)
    }
}

fn print_json(value: &Value) {
    let _ = writeln!(std::io::stdout().lock(), "{value:#}");
}

/// How wide a table may be: as `COLUMNS` says, or the terminal; `None` is as wide as it likes.
pub(super) fn columns() -> Option<usize> {
    let set = std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse().ok());
    let terminal = || terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0));
    set.or_else(terminal).filter(|columns| *columns > 0)
}

/// Colours are for people at a terminal who have not asked to be spared.
fn colours() -> bool {
    let spared = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    std::io::stdout().is_terminal() && !spared
}

/// The colour of a status.
pub(super) fn style_of(status: &str) -> Style {
    match status {
        "done" => Style::Good,
        "failed" | "timed_out" | "dead" | "lost" | "missed" => Style::Bad,
        "running" | "waiting" | "paused" | "skipped" | "handed_over" | "returned" => Style::Notable,
        _ => Style::Plain,
    }
}
