//! One process of an example.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tests::{LONG, example};

/// A running example; dropping it kills it.
pub(crate) struct Program {
    child: Child,
    lines: Receiver<String>,
    /// What it has printed so far.
    seen: Vec<String>,
    /// Its folder for temporary files.
    folder: TempDir,
}

impl Program {
    pub(crate) fn start(name: &str) -> Self {
        Self::start_with(name, |_| {})
    }

    pub(crate) fn start_with(name: &str, configure: impl FnOnce(&mut Command)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(example(name));
        for variable in ["ANARCHON_STORE", "DATABASE_URL", "NATS_URL"] {
            command.env_remove(variable);
        }
        command.env("TMPDIR", folder.path()).stdin(Stdio::null()).stdout(Stdio::piped());
        configure(&mut command);
        let mut child = command.spawn().expect("an example that can be started");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let (sender, lines) = channel();
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines, seen: Vec::new(), folder }
    }

    /// Its folder for temporary files.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Waits for the next line that holds `what`.
    pub(crate) fn wait_line(&mut self, what: &str) -> String {
        let since = Instant::now();
        loop {
            match self.lines.recv_timeout(LONG.saturating_sub(since.elapsed())) {
                Ok(line) => self.seen.push(line),
                Err(error) => panic!("no line with {what:?} ({error}): {:#?}", self.seen),
            }
            if let Some(line) = self.seen.last().filter(|line| line.contains(what)) {
                return line.clone();
            }
        }
    }

    /// Asks it to stop, as a deployment does.
    pub(crate) fn terminate(&self) {
        // Our own child, which we have not waited for: its pid is nobody else's.
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("a child can be signalled");
    }

    /// Waits until it and its children have ended, which must be without complaint and leave nothing behind. Returns all
    /// that it has printed.
    pub(crate) fn end(mut self) -> Vec<String> {
        let since = Instant::now();
        loop {
            match self.lines.recv_timeout((2 * LONG).saturating_sub(since.elapsed())) {
                Ok(line) => self.seen.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(error) => panic!("it does not end ({error}): {:#?}", self.seen),
            }
        }
        let status = self.child.wait().expect("a child that was not waited for");
        assert!(status.success(), "{status}: {:#?}", self.seen);
        let left: Vec<_> = std::fs::read_dir(self.folder()).expect("a folder").flatten().collect();
        assert!(left.is_empty(), "{left:?}");
        std::mem::take(&mut self.seen)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The time of day that a line begins with.
pub(crate) fn slot(line: &str) -> &str {
    line.split_whitespace().next().expect("a line that begins with a time")
}

/// Those lines that hold `what`, from the line on that holds `from`.
pub(crate) fn after<'a>(lines: &'a [String], from: &str, what: &str) -> Vec<&'a str> {
    let begin = lines.iter().position(|line| line.contains(from)).unwrap_or_else(|| panic!("no {from:?}: {lines:#?}"));
    lines[begin..].iter().map(String::as_str).filter(|line| line.contains(what)).collect()
}

/// Asserts that no two of these lines are about the same slot.
pub(crate) fn each_slot_once(lines: &[&str]) {
    let mut slots: Vec<&str> = lines.iter().map(|line| slot(line)).collect();
    slots.sort_unstable();
    slots.dedup();
    assert_eq!(slots.len(), lines.len(), "{lines:#?}");
}
