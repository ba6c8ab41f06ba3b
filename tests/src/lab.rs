//! A store, a directory, and the processes on it.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::binary::example;
use crate::check::{self, Attempt};
use crate::client::Client;
use crate::log::{Line, LogReader};
use crate::node::{Death, Node, NodeOptions, Places};
use crate::store::Store;

/// How long tests wait for what must happen soon: far longer than it takes, also on a machine that is busy elsewhere.
pub const LONG: Duration = Duration::from_secs(45);
pub(crate) const POLL: Duration = Duration::from_millis(10);

/// A store in a directory of its own, and the log of all processes on it.
#[derive(Debug)]
pub struct Lab {
    store: RefCell<Store>,
    log: RefCell<LogReader>,
    deaths: Arc<Mutex<Vec<Death>>>,
    spawned: Cell<usize>,
    directory: TempDir,
}

impl Lab {
    /// A lab on a new SQLite file.
    ///
    /// # Panics
    /// When there is no room for a temporary directory.
    #[must_use]
    pub fn sqlite() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let store = Store::sqlite(directory.path());
        Self::on(store, directory)
    }

    /// A lab on a store; the directory goes when the lab goes.
    #[must_use]
    pub fn on(store: Store, directory: TempDir) -> Self {
        // Built before any test looks at the clock.
        let _ = crate::example("node");
        let log = RefCell::new(LogReader::new(&directory.path().join("log.jsonl")));
        let (store, deaths, spawned) = (RefCell::new(store), Arc::default(), Cell::new(0));
        Self { store, log, deaths, spawned, directory }
    }

    /// The store.
    pub fn store(&self) -> &RefCell<Store> {
        &self.store
    }

    /// The store's URL.
    #[must_use]
    pub fn url(&self) -> String {
        self.store.borrow().url().to_owned()
    }

    /// Starts a process that has these jobs; it may not be ready yet.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn spawn(&self, name: &str, jobs: &str, options: &NodeOptions) -> Node {
        self.spawn_program(&example("node"), name, jobs, options)
    }

    /// Starts a process of another program, which takes the same arguments and prints the same words as `node`.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn spawn_program(&self, program: &Path, name: &str, jobs: &str, options: &NodeOptions) -> Node {
        let number = self.spawned.replace(self.spawned.get() + 1);
        let file = self.directory.path().join(format!("{number}-{name}.toml"));
        std::fs::write(&file, jobs).expect("a file of jobs");
        let places = Places {
            binary: program,
            store: &self.url(),
            jobs: &file,
            log: &self.log_path(),
            prints: self.directory.path(),
        };
        Node::spawn(name, number, options, &places, Arc::clone(&self.deaths))
    }

    /// Starts a process that has these jobs, and waits until it is ready.
    pub fn start(&self, name: &str, jobs: &str, options: &NodeOptions) -> Node {
        let mut node = self.spawn(name, jobs, options);
        node.wait_ready();
        node
    }

    /// Starts processes of these names, all with the same jobs and at once.
    pub fn start_all<const N: usize>(&self, names: [&str; N], jobs: &str, options: &NodeOptions) -> [Node; N] {
        let mut nodes = names.map(|name| self.spawn(name, jobs, options));
        nodes.iter_mut().for_each(Node::wait_ready);
        nodes
    }

    /// Freezes a process, as a pause of a virtual machine would; but not while it holds a lock of the store, which no
    /// lease could help the others over.
    ///
    /// # Panics
    /// When the store is locked each time.
    pub fn freeze(&self, node: &Node) {
        for _ in 0..100 {
            node.freeze();
            if !self.store.borrow().is_locked() {
                node.dead(crate::log::monotonic_ns());
                return;
            }
            node.thaw();
            thread::sleep(POLL);
        }
        panic!("the store is locked, whenever `{}` is frozen", node.name);
    }

    /// Freezes a process whatever locks it holds.
    pub fn freeze_with_its_locks(&self, node: &Node) {
        node.freeze();
        node.dead(crate::log::monotonic_ns());
    }

    fn log_path(&self) -> PathBuf {
        self.directory.path().join("log.jsonl")
    }

    /// The log so far.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        self.log.borrow_mut().lines().to_vec()
    }

    /// The attempts that the log tells of so far, by their starts.
    #[must_use]
    pub fn attempts(&self) -> Vec<Attempt> {
        check::attempts(&self.lines(), &self.deaths())
    }

    /// When which process was killed or frozen.
    ///
    /// # Panics
    /// After a panic elsewhere.
    #[must_use]
    pub fn deaths(&self) -> Vec<Death> {
        self.deaths.lock().expect("no panic while it is held").clone()
    }

    /// Waits until the log holds something.
    ///
    /// # Panics
    /// When it does not within [`LONG`].
    pub fn wait_for<T>(&self, what: &str, found: impl Fn(&[Line]) -> Option<T>) -> T {
        let since = Instant::now();
        loop {
            if let Some(found) = found(self.log.borrow_mut().lines()) {
                return found;
            }
            assert!(since.elapsed() < LONG, "not in the log within {LONG:?}: {what}");
            thread::sleep(POLL);
        }
    }

    /// Waits for the first line that `is` it.
    pub fn wait_line(&self, what: &str, is: impl Fn(&Line) -> bool) -> Line {
        self.wait_for(what, |lines| lines.iter().find(|line| is(line)).cloned())
    }

    /// Waits until the log holds this event for each of these slots of a job.
    pub fn wait_each(&self, event: &str, job: &str, slots: &[i64]) {
        let what = format!("`{event}` of `{job}` for each of {slots:?}");
        self.wait_for(&what, |lines| {
            let told = |slot: &i64| lines.iter().any(|line| line.is(event, job) && line.slot == Some(*slot));
            slots.iter().all(told).then_some(())
        });
    }

    /// Waits for the start of the `n`-th attempt of some run of a job.
    pub fn wait_start(&self, job: &str, attempt: u32) -> Line {
        let what = format!("a start of attempt {attempt} of `{job}`");
        self.wait_line(&what, |line| line.is("start", job) && line.attempt == Some(attempt))
    }

    /// Waits until a wall clock time, for tests of what must *not* happen until then.
    pub fn wait_until_ms(&self, wall_ms: i64) {
        while let Ok(left @ 1..) = u64::try_from(wall_ms - crate::log::wall_ms()) {
            thread::sleep(Duration::from_millis(left.min(50)));
        }
    }

    /// A client of the store in this process, which has no jobs of its own.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::connect(&self.url())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if !thread::panicking() {
            return;
        }
        eprintln!("--- the log of the lab ({} processes) ---", self.spawned.get());
        eprintln!("{}", std::fs::read_to_string(self.log_path()).unwrap_or_default());
        let files = std::fs::read_dir(self.directory.path()).into_iter().flatten().flatten();
        for file in files.filter(|file| file.path().extension().is_some_and(|extension| extension == "err")) {
            let text = std::fs::read_to_string(file.path()).unwrap_or_default();
            if !text.is_empty() {
                eprintln!("--- {} ---\n{text}", file.file_name().to_string_lossy());
            }
        }
    }
}
