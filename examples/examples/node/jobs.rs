//! The file of jobs.

use anarchon::{Dialect, JobBuilder, Overlap, Scheduler};
use serde::Deserialize;

use crate::backend::NodeBackend;
use crate::work::{Work, handle};
use crate::{Fallible, describe};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JobsFile {
    #[serde(default)]
    job: Vec<JobTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobTable {
    pub(crate) name: String,
    pub(crate) every: Option<String>,
    pub(crate) cron: Option<String>,
    pub(crate) at: Option<String>,
    pub(crate) offset: Option<String>,
    pub(crate) timezone: Option<String>,
    pub(crate) dialect: Option<DialectWord>,
    pub(crate) jitter: Option<String>,
    pub(crate) max_late: Option<String>,
    pub(crate) timeout: Option<String>,
    pub(crate) history_size: Option<u32>,
    pub(crate) history_ttl: Option<String>,
    pub(crate) overlap: Option<OverlapWord>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) retry_failed: Option<String>,
    pub(crate) catch_up: Option<String>,
    pub(crate) takeover_within: Option<String>,
    pub(crate) work: Work,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DialectWord {
    Unix,
    Quartz,
}

impl From<DialectWord> for Dialect {
    fn from(word: DialectWord) -> Self {
        match word {
            DialectWord::Unix => Self::Unix,
            DialectWord::Quartz => Self::Quartz,
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OverlapWord {
    Skip,
    Allow,
}

impl From<OverlapWord> for Overlap {
    fn from(word: OverlapWord) -> Self {
        match word {
            OverlapWord::Skip => Self::Skip,
            OverlapWord::Allow => Self::Allow,
        }
    }
}

pub(crate) fn read_jobs(path: &str) -> Fallible<Vec<JobTable>> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("cannot read {path}: {e}"))?;
    let file: JobsFile = toml::from_str(&text).map_err(|e| format!("{path}: {e}"))?;
    Ok(file.job)
}
pub(crate) async fn add_job<B: NodeBackend>(scheduler: &Scheduler<B>, job: JobTable) -> Fallible<()> {
    let handler = handle;
    let refused = |what: &str| Err(format!("job `{}`: {what}", job.name));
    match (&job.every, &job.cron, &job.at) {
        (Some(interval), None, None) => {
            if job.timezone.is_some() {
                return refused("`timezone` does not go with `every`: its grid is anchored at the Unix epoch");
            }
            if job.dialect.is_some() {
                return refused("`dialect` goes with `cron` only");
            }
            let mut builder = scheduler.every(&job.name, interval.as_str(), handler);
            if let Some(offset) = &job.offset {
                builder = builder.offset(offset.as_str());
            }
            if let Some(overlap) = job.overlap {
                builder = B::overlap(builder, overlap.into());
            }
            add(builder, &job).await
        }
        (None, Some(line), None) => {
            if job.offset.is_some() {
                return refused("`offset` goes with `every` only");
            }
            let mut builder = scheduler.cron(&job.name, line, handler);
            if let Some(dialect) = job.dialect {
                builder = builder.dialect(dialect.into());
            }
            if let Some(zone) = &job.timezone {
                builder = builder.timezone(zone);
            }
            if let Some(overlap) = job.overlap {
                builder = B::overlap(builder, overlap.into());
            }
            add(builder, &job).await
        }
        (None, None, Some(time)) => {
            if job.offset.is_some() {
                return refused("`offset` goes with `every` only");
            }
            if job.dialect.is_some() {
                return refused("`dialect` goes with `cron` only");
            }
            if job.overlap.is_some() {
                return refused("`overlap` does not go with `at`: a job that runs once has nothing to overlap with");
            }
            let mut builder = scheduler.at(&job.name, time, handler);
            if let Some(zone) = &job.timezone {
                builder = builder.timezone(zone);
            }
            add(builder, &job).await
        }
        (None, None, None) => refused("has no schedule; set one of `every`, `cron` and `at`"),
        _ => refused("has more than one schedule; set one of `every`, `cron` and `at`"),
    }
}

async fn add<B: NodeBackend, K>(builder: JobBuilder<'_, B, K>, job: &JobTable) -> Fallible<()> {
    let mut builder = B::lease_options(builder, job)?.data(job.work);
    if let Some(jitter) = &job.jitter {
        builder = builder.jitter(jitter.as_str());
    }
    if let Some(max_late) = &job.max_late {
        builder = builder.max_late(max_late.as_str());
    }
    if let Some(timeout) = &job.timeout {
        builder = builder.timeout(timeout.as_str());
    }
    if let Some(size) = job.history_size {
        builder = builder.history_size(size);
    }
    builder.add().await.map_err(|error| describe(&error))
}
