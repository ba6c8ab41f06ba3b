//! A scheduler in the test's own process, for questions and for pausing.

use anarchon::run::ActiveRun;
use anarchon::{AnyBackend, AttemptRecord, Record, Scheduler, SkipRecord};
use tokio::runtime::Runtime;

/// An instance without jobs. Its calls block, and panic where they fail.
#[derive(Debug)]
pub struct Client {
    runtime: Runtime,
    scheduler: Scheduler<AnyBackend>,
}

impl Client {
    /// Starts an instance without jobs.
    ///
    /// # Panics
    /// When the store cannot be reached.
    #[must_use]
    pub fn connect(url: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let backend = AnyBackend::connect(url).expect("a store with leases");
        let scheduler = runtime.block_on(Scheduler::builder(backend).instance_id("client").start());
        Self { runtime, scheduler: scheduler.expect("the store can be reached") }
    }

    /// All records of a job, the oldest first.
    ///
    /// # Panics
    /// When the store fails.
    #[must_use]
    pub fn history(&self, job: &str) -> Vec<Record> {
        let mut records = self.runtime.block_on(self.scheduler.history(job, 1000)).expect("a history");
        records.reverse();
        records
    }

    /// The attempts of a run, the first one first.
    #[must_use]
    pub fn attempts(&self, job: &str, slot: i64) -> Vec<AttemptRecord> {
        let records = self.history(job).into_iter();
        records.filter_map(|record| record.attempt().filter(|a| a.run.slot.ms() == slot).cloned()).collect()
    }

    /// What is recorded about skipped slots, the oldest first.
    #[must_use]
    pub fn skips(&self, job: &str) -> Vec<SkipRecord> {
        let records = self.history(job).into_iter();
        records.filter_map(|record| if let Record::Skipped(skip) = record { Some(skip) } else { None }).collect()
    }

    /// The unfinished runs of a job.
    ///
    /// # Panics
    /// When the store fails.
    #[must_use]
    pub fn active(&self, job: &str) -> Vec<ActiveRun> {
        self.runtime.block_on(self.scheduler.active(job)).expect("the active runs")
    }

    /// Pauses a job everywhere.
    ///
    /// # Panics
    /// When the store fails.
    pub fn pause(&self, job: &str) {
        self.runtime.block_on(self.scheduler.pause(job, "a test")).expect("a pause");
    }

    /// Ends a pause.
    ///
    /// # Panics
    /// When the store fails.
    pub fn resume(&self, job: &str) {
        self.runtime.block_on(self.scheduler.resume(job)).expect("the end of a pause");
    }
}
