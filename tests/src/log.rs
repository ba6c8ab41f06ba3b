//! The log that all processes of a lab write, and the clocks they write in it.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use anarchon::Context;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// One line of the log of `node`; its help says what there is.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Line {
    /// `start`, `end` or `cancelled` of a handler; `ready`, `stopping` or `stopped`; or a scheduler's event.
    pub event: String,
    /// The job.
    pub job: Option<String>,
    /// The slot, in ms since the epoch.
    pub slot: Option<i64>,
    /// The attempt's number.
    pub attempt: Option<u32>,
    /// Its fence.
    pub fence: Option<u64>,
    /// Why it was started.
    pub reason: Option<String>,
    /// Its token.
    pub token: Option<String>,
    /// How it ended, or whatever else there is to say.
    pub how: Option<String>,
    /// Who wrote the line.
    pub instance: String,
    /// Its process.
    pub pid: u32,
    /// When, by the clock of [`monotonic_ns`].
    pub mono_ns: u64,
    /// When, by the clock of [`wall_ms`].
    pub wall_ms: i64,
}

impl Line {
    /// Whether it is this event of this job.
    #[must_use]
    pub fn is(&self, event: &str, job: &str) -> bool {
        self.event == event && self.job.as_deref() == Some(job)
    }

    /// Whether it is this event of the same attempt as `other`.
    #[must_use]
    pub fn is_of(&self, event: &str, other: &Self) -> bool {
        self.event == event && self.job == other.job && self.slot == other.slot && self.attempt == other.attempt
    }
}

/// `CLOCK_MONOTONIC`: the same for all processes of this machine.
///
/// # Panics
/// Never: the clock begins at zero.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).expect("the clock begins at zero")
}

/// The wall clock in ms, which is the clock of a store in a file, too.
#[must_use]
pub fn wall_ms() -> i64 {
    let time = clock_gettime(ClockId::Realtime);
    time.tv_sec * 1000 + time.tv_nsec / 1_000_000
}

/// Appends to a log as one process of several does: each line by one write, so that no two mix.
#[derive(Debug)]
pub struct LogWriter {
    file: File,
    instance: String,
}

impl LogWriter {
    /// The log at `path`, written by `instance`.
    ///
    /// # Panics
    /// When it cannot be opened.
    #[must_use]
    pub fn new(path: &Path, instance: &str) -> Self {
        let file = File::options().create(true).append(true).open(path).expect("a log can be opened");
        Self { file, instance: instance.to_owned() }
    }

    /// Writes about an attempt.
    ///
    /// # Panics
    /// When that cannot be written.
    pub fn say(&self, event: &str, ctx: &Context, how: Option<String>) {
        let line = Line {
            event: event.to_owned(),
            job: Some(ctx.job().to_string()),
            slot: Some(ctx.slot_ms()),
            attempt: Some(ctx.attempt()),
            fence: ctx.fence(),
            reason: Some(ctx.reason().to_string()),
            token: Some(ctx.token().to_string()),
            how,
            instance: self.instance.clone(),
            pid: std::process::id(),
            mono_ns: monotonic_ns(),
            wall_ms: wall_ms(),
        };
        let mut text = serde_json::to_string(&line).expect("a line is JSON");
        text.push('\n');
        (&self.file).write_all(text.as_bytes()).expect("a log can be written");
    }
}

/// Reads a growing log: whole lines only, each once.
#[derive(Debug)]
pub(crate) struct LogReader {
    path: PathBuf,
    read: u64,
    lines: Vec<Line>,
}

impl LogReader {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), read: 0, lines: Vec::new() }
    }

    /// All lines so far, in the order in which they were written.
    pub(crate) fn lines(&mut self) -> &[Line] {
        if let Ok(mut file) = File::open(&self.path) {
            let mut bytes = Vec::new();
            file.seek(SeekFrom::Start(self.read)).expect("a log can be read anywhere");
            file.read_to_end(&mut bytes).expect("a log can be read");
            let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let text = std::str::from_utf8(&bytes[..whole]).expect("a log is UTF-8");
            for line in text.lines() {
                self.lines.push(serde_json::from_str(line).unwrap_or_else(|e| panic!("no line of a log: {line}: {e}")));
            }
            self.read += whole as u64;
        }
        &self.lines
    }
}
