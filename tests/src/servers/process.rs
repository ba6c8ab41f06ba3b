//! The process of a server.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

use crate::lab::LONG;
use crate::node::all_threads_stopped;
use crate::store::Server;

/// Becomes the server, after it has started a guard that waits for the end of its input. The pipe ends when the test's
/// program does, however that ends: then the guard ends the server and removes its folder. A line before the end tells
/// it that the server has ended. It is not a child of the server, to which children might mean something.
const START: &str = r#"
exec 3<&0 </dev/null
( (
    read -r _ <&3 && exit
    kill -s "$1" $$; kill -s CONT $$
    for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 $$ || break; sleep 0.1; done
    kill -s KILL $$
    for _ in 1 2 3 4 5 6 7 8 9 10; do rm -rf -- "$2" && break; sleep 0.1; done
  ) >/dev/null 2>&1 & )
exec 3<&-
shift 2
exec "$@"
"#;

/// A server's program, its folder, and the process that runs it, if it does.
#[derive(Debug)]
pub(super) struct Process {
    name: &'static str,
    /// The program and its arguments.
    line: Vec<OsString>,
    /// The signal upon which it ends well.
    stop: Signal,
    /// The signal upon which it ends fast, but leaves nothing behind in the system.
    quit: Signal,
    running: Option<Running>,
    folder: TempDir,
}

#[derive(Debug)]
struct Running {
    child: Child,
    guard: ChildStdin,
    frozen: bool,
}

/// A server that is one process.
pub(super) trait OneProcess: std::fmt::Debug {
    /// Its process.
    fn process(&mut self) -> &mut Process;

    /// What tells whether it answers.
    fn answers(&self) -> impl Fn() -> Result<(), String> + use<Self>;
}

impl<S: OneProcess> Server for S {
    fn start(&mut self) {
        let answers = self.answers();
        self.process().start(answers);
    }

    fn kill(&mut self) {
        self.process().kill();
    }

    fn freeze(&mut self) {
        self.process().freeze();
    }

    fn thaw(&mut self) {
        self.process().thaw();
    }

    fn stop(&mut self) {
        self.process().stop();
    }
}

/// A folder for a server, which belongs to the user that runs it.
pub(super) fn folder(name: &str) -> TempDir {
    let folder =
        tempfile::Builder::new().prefix(&format!("anarchon-{name}-")).tempdir().expect("a temporary directory");
    if let Some((user, group)) = user() {
        std::os::unix::fs::chown(folder.path(), Some(user), Some(group)).expect("root can give a directory away");
    }
    folder
}

/// Runs a program that makes what a server needs in its folder.
pub(super) fn prepare<I, S>(folder: &TempDir, program: &Path, args: I)
where
    I: IntoIterator<Item = S>,
    S: AsRef<std::ffi::OsStr>,
{
    if let Err(said) = run(folder.path(), program, args) {
        panic!("{} failed: {said}", program.display());
    }
}

/// Runs a program in a server's folder; or what it says when it fails.
pub(super) fn run<I, S>(folder: &Path, program: &Path, args: I) -> Result<(), String>
where
    I: IntoIterator<Item = S>,
    S: AsRef<std::ffi::OsStr>,
{
    let output = command(program, folder).args(args).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|e| panic!("{} cannot be run: {e}", program.display()));
    let said = || format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(()) } else { Err(said()) }
}

/// Runs as the user of servers, with an environment that is the same everywhere.
fn command(program: impl AsRef<std::ffi::OsStr>, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path))).env("LC_ALL", "C");
    command.env("TMPDIR", folder).current_dir(folder);
    if let Some((user, group)) = user() {
        command.uid(user).gid(group);
    }
    command
}

/// Whom servers run as, if this is root, as whom most of them refuse to run.
fn user() -> Option<(u32, u32)> {
    if !geteuid().is_root() {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").expect("a list of users");
    let ids = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut ids = line.split(':').skip(2);
        Some((ids.next()?.parse().ok()?, ids.next()?.parse().ok()?))
    };
    Some(ids("postgres").or_else(|| ids("nobody")).expect("there is a user `postgres` or `nobody`"))
}

impl Process {
    /// A server that is not running yet.
    pub(super) fn new(name: &'static str, folder: TempDir, program: &Path, stop: Signal, quit: Signal) -> Self {
        Self { name, line: vec![program.into()], stop, quit, running: None, folder }
    }

    /// Adds an argument.
    pub(super) fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.line.push(arg.into());
        self
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Starts it, and returns once it answers.
    pub(super) fn start(&mut self, answers: impl Fn() -> Result<(), String>) {
        assert!(self.running.is_none(), "{} is running", self.name);
        let log = File::options().create(true).append(true).open(self.log()).expect("a file for its log");
        let mut command = command("/bin/sh", self.folder.path());
        command.args(["-c", START, "sh", signal_name(self.quit)]).arg(self.folder.path()).args(&self.line);
        // Not in our group: ^C is for the tests, and the guard must outlive them.
        command.process_group(0).stdin(Stdio::piped());
        command.stdout(log.try_clone().expect("a second handle")).stderr(log);
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{} cannot be started: {e}", self.name));
        let guard = child.stdin.take().expect("it has a pipe");
        self.running = Some(Running { child, guard, frozen: false });
        let since = Instant::now();
        while let Err(error) = answers() {
            if let Some(status) = self.ended() {
                panic!("{} ended ({status}) instead of answering: {}", self.name, self.end_of_log());
            }
            // Some take seconds even where nothing else runs.
            assert!(since.elapsed() < LONG * 2, "{} does not answer: {error}: {}", self.name, self.end_of_log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The process, which has not been waited for: its pid is nobody else's.
    fn running(&mut self) -> &mut Running {
        let name = self.name;
        self.running.as_mut().unwrap_or_else(|| panic!("{name} is not running"))
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.child.id())
    }

    /// Stops it and all its children, so that it does nothing more, not even start or forget a child.
    pub(super) fn freeze(&mut self) {
        let name = self.name;
        let running = self.running();
        let pid = Pid::from_child(&running.child);
        if !running.frozen {
            running.frozen = true;
            signal(pid, Signal::STOP);
            wait_until(|| all_threads_stopped(running.child.id()), || format!("{name} does not freeze"));
            for child in children(pid) {
                signal(child, Signal::STOP);
            }
        }
    }

    /// Lets it go on.
    pub(super) fn thaw(&mut self) {
        let running = self.running();
        let pid = Pid::from_child(&running.child);
        if std::mem::take(&mut running.frozen) {
            for child in children(pid) {
                signal(child, Signal::CONT);
            }
            signal(pid, Signal::CONT);
        }
    }

    /// Kills it and all its children at once, as a crash of its machine would.
    pub(super) fn kill(&mut self) {
        self.freeze();
        let name = self.name;
        let pid = Pid::from_child(&self.running().child);
        // While it is frozen it does not take note of their ends, so their pids stay theirs. Each must have ended: memory
        // that one still shares keeps a server from starting again.
        let children = children(pid);
        for child in &children {
            signal(*child, Signal::KILL);
        }
        wait_until(|| children.iter().all(|child| has_ended(*child)), || format!("children of {name} do not end"));
        signal(pid, Signal::KILL);
        self.wait();
    }

    /// Asks it to stop, and waits until it has.
    pub(super) fn stop(&mut self) {
        self.thaw();
        let stop = self.stop;
        signal(Pid::from_child(&self.running().child), stop);
        self.wait();
    }

    fn wait(&mut self) {
        let since = Instant::now();
        while self.ended().is_none() {
            assert!(since.elapsed() < LONG, "{} does not end: {}", self.name, self.end_of_log());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// How it ended, if it has; then it is no longer running.
    fn ended(&mut self) -> Option<ExitStatus> {
        let running = self.running();
        let status = running.child.try_wait().expect("a child can be waited for")?;
        // If the guard has gone, there is nobody to tell.
        let _ = running.guard.write_all(b"\n");
        self.running = None;
        Some(status)
    }

    fn end_of_log(&self) -> String {
        let log = String::from_utf8_lossy(&std::fs::read(self.log()).unwrap_or_default()).into_owned();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(running) = &mut self.running else { return };
        let pid = Pid::from_child(&running.child);
        if !running.frozen {
            let _ = kill_process(pid, self.quit);
            let since = Instant::now();
            while since.elapsed() < Duration::from_secs(5) {
                if self.ended().is_some() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        self.kill();
    }
}

fn signal(pid: Pid, signal: Signal) {
    // A child of a server may have ended, and not been noticed by it yet.
    let _ = kill_process(pid, signal);
}

fn signal_name(signal: Signal) -> &'static str {
    match signal {
        Signal::QUIT => "QUIT",
        Signal::TERM => "TERM",
        Signal::INT => "INT",
        _ => "KILL",
    }
}

fn wait_until(is: impl Fn() -> bool, otherwise: impl Fn() -> String) {
    let since = Instant::now();
    while !is() {
        assert!(since.elapsed() < LONG, "{}", otherwise());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The children of a process, where the system shows them.
fn children(parent: Pid) -> Vec<Pid> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|process| Pid::from_raw(process.file_name().to_str()?.parse().ok()?));
    pids.filter(|pid| state_and_parent(*pid).is_some_and(|(_, of)| of == parent.as_raw_nonzero().get())).collect()
}

/// Whether a process has ended, even if its parent has taken no note of it.
fn has_ended(pid: Pid) -> bool {
    state_and_parent(pid).is_none_or(|(state, _)| state == "Z" || state == "X")
}

fn state_and_parent(pid: Pid) -> Option<(String, i32)> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // They follow the name, which is in brackets and may hold anything.
    let mut rest = stat.rsplit_once(") ")?.1.split(' ');
    Some((rest.next()?.to_owned(), rest.next()?.parse().ok()?))
}
