//! One process of the `node` example.

use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::lab::{LONG, POLL};
use crate::log::monotonic_ns;

/// When a process stopped doing anything: it was killed, or frozen.
#[derive(Clone, Copy, Debug)]
pub struct Death {
    /// The process.
    pub pid: u32,
    /// When, by [`monotonic_ns`]: surely after the last thing it did.
    pub mono_ns: u64,
}

/// How a process is to be started. The defaults are short times, which suit tests.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    args: Vec<String>,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self::bare().set("--lease", "3s").set("--watch", "500ms").set("--stop-grace", "1s")
    }
}

impl NodeOptions {
    /// Nothing but what must be said, as for stores without leases.
    #[must_use]
    pub const fn bare() -> Self {
        Self { args: Vec::new() }
    }

    /// Sets an argument of `node`.
    #[must_use]
    pub fn set(mut self, option: &str, value: &str) -> Self {
        if let Some(at) = self.args.iter().position(|arg| arg == option) {
            self.args.drain(at..at + 2);
        }
        self.args.extend([option.to_owned(), value.to_owned()]);
        self
    }

    /// Adds an argument of `node` that has no value.
    #[must_use]
    pub fn flag(mut self, option: &str) -> Self {
        self.args.push(option.to_owned());
        self
    }
}

/// A running process; dropping it kills it.
#[derive(Debug)]
pub struct Node {
    /// Its name, which is its instance id.
    pub name: String,
    child: Child,
    out: PathBuf,
    err: PathBuf,
    deaths: Arc<Mutex<Vec<Death>>>,
    status: Option<ExitStatus>,
}

/// Where a process finds things.
pub(crate) struct Places<'a> {
    pub(crate) binary: &'a Path,
    pub(crate) store: &'a str,
    pub(crate) jobs: &'a Path,
    pub(crate) log: &'a Path,
    /// The directory for what it prints.
    pub(crate) prints: &'a Path,
}

impl Node {
    pub(crate) fn spawn(
        name: &str,
        number: usize,
        options: &NodeOptions,
        places: &Places<'_>,
        deaths: Arc<Mutex<Vec<Death>>>,
    ) -> Self {
        let out = places.prints.join(format!("{number}-{name}.out"));
        let err = places.prints.join(format!("{number}-{name}.err"));
        let child = Command::new(places.binary)
            .args(["--store", places.store, "--instance", name])
            .arg("--jobs")
            .arg(places.jobs)
            .arg("--log")
            .arg(places.log)
            .arg("--with-stdin")
            .args(&options.args)
            .env("RUST_BACKTRACE", "0")
            // The pipe closes when this test dies, however it dies, and the process dies with it.
            .stdin(Stdio::piped())
            .stdout(File::create(&out).expect("a file for what it prints"))
            .stderr(File::create(&err).expect("a file for what it prints"))
            .spawn()
            .expect("node cannot be started");
        Self { name: name.to_owned(), child, out, err, deaths, status: None }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed to standard error.
    #[must_use]
    pub fn stderr(&self) -> String {
        std::fs::read_to_string(&self.err).unwrap_or_default()
    }

    /// Waits until it says that it is ready.
    ///
    /// # Panics
    /// When it ends instead, or takes too long.
    pub fn wait_ready(&mut self) {
        let since = Instant::now();
        while !std::fs::read_to_string(&self.out).is_ok_and(|text| text.lines().any(|line| line == "ready")) {
            if let Some(status) = self.try_wait() {
                panic!("`{}` ended ({status}) instead of getting ready: {}", self.name, self.stderr());
            }
            assert!(since.elapsed() < LONG, "`{}` does not get ready: {}", self.name, self.stderr());
            thread::sleep(POLL);
        }
    }

    fn signal(&self, signal: Signal) {
        assert!(self.status.is_none(), "`{}` has ended", self.name);
        // Our own child, which we have not waited for: its pid is nobody else's.
        kill_process(Pid::from_child(&self.child), signal).expect("a child can be signalled");
    }

    /// Kills it, as a crash would, and waits until it is dead. Returns the time before which it was alive.
    pub fn kill(&mut self) -> u64 {
        let before = monotonic_ns();
        self.signal(Signal::KILL);
        let status = self.wait();
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "`{}` ended by itself", self.name);
        before
    }

    /// Freezes it, as a pause of a virtual machine would, and waits until it is frozen.
    ///
    /// # Panics
    /// When the system does not show that it is.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
        let since = Instant::now();
        while !all_threads_stopped(self.pid()) {
            assert!(since.elapsed() < LONG, "`{}` does not freeze", self.name);
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Asks it to stop, as a deployment does.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Waits until it has ended.
    ///
    /// # Panics
    /// When that takes too long.
    pub fn wait(&mut self) -> ExitStatus {
        let since = Instant::now();
        loop {
            if let Some(status) = self.try_wait() {
                return status;
            }
            assert!(since.elapsed() < LONG, "`{}` does not end", self.name);
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Asks it to stop, and waits until it has, which must be without complaint.
    ///
    /// # Panics
    /// When its exit code is not 0.
    pub fn stop(&mut self) {
        self.terminate();
        let status = self.wait();
        assert!(status.success(), "`{}` did not stop well ({status}): {}", self.name, self.stderr());
    }

    fn try_wait(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().expect("a child can be waited for");
            if self.status.is_some() {
                self.dead(monotonic_ns());
            }
        }
        self.status
    }

    pub(crate) fn dead(&self, mono_ns: u64) {
        self.deaths.lock().expect("no panic while it is held").push(Death { pid: self.pid(), mono_ns });
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if self.status.is_none() {
            // It works on a frozen process, too.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[cfg(target_os = "linux")]
pub(crate) fn all_threads_stopped(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The state follows the name, which is in brackets and may hold anything.
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    })
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn all_threads_stopped(_: u32) -> bool {
    thread::sleep(Duration::from_millis(50));
    true
}
