//! What several commands ask the store.

use super::output::Failure;
use crate::error::Result;
use crate::run::{ActiveRun, KnownJob, Record};
use crate::scheduler::look::Look;
use crate::slot::JobName;

/// What is known of one job.
pub(super) struct Subject {
    pub(super) name: JobName,
    /// What the store tells; `None` when it does not know the job, or does not tell.
    pub(super) known: Option<KnownJob>,
    /// Whether what the store does not know has never been registered.
    pub(super) told: bool,
}

impl Look {
    /// The latest records of a job.
    pub(super) async fn history(&self, job: &JobName, limit: u32) -> Result<Vec<Record>> {
        if self.info.empty { Ok(Vec::new()) } else { self.ask(self.store.history(job, limit)).await }
    }

    /// What the store knows of these jobs, or of all if none is named; `None` when it does not tell.
    pub(super) async fn known(&self, jobs: &[JobName]) -> Result<Option<Vec<KnownJob>>> {
        if self.info.empty { Ok(None) } else { self.ask(self.store.known(jobs)).await }
    }

    /// The unfinished runs of these jobs, or of all if none is named; none on a store without leases.
    pub(super) async fn unfinished(&self, jobs: &[JobName]) -> Result<Vec<ActiveRun>> {
        if self.info.empty || !self.store.leases() {
            return Ok(Vec::new());
        }
        self.ask(self.store.unfinished(jobs)).await.map(|runs| runs.value)
    }

    /// The job that is asked about: the program's, or one that the store knows.
    pub(super) async fn subject(&self, job: &str) -> Result<Subject, Failure> {
        let Ok(name) = JobName::new(job) else { return Err(self.unknown(job)) };
        let known = self.known(std::slice::from_ref(&name)).await?;
        let told = known.is_some() || self.info.empty;
        let known = known.and_then(|mut known| known.pop());
        if self.job(job).is_none() && known.is_none() && self.history(&name, 1).await?.is_empty() {
            return Err(self.unknown(job));
        }
        Ok(Subject { name, known, told })
    }

    pub(super) fn unknown(&self, job: &str) -> Failure {
        Failure::unknown_job(job, self.jobs.iter().map(|job| job.name.as_str()))
    }
}
