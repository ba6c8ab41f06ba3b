//! The jobs that `#[anarchon::job]` wrote into the program, collected at link time. The only file that names
//! `inventory`.

use std::fmt;

use crate::extract::{BoxHandler, DataValue};
use crate::option::Overlap;
use crate::slot::Place;

/// A schedule as the macro checked it.
#[derive(Clone, Copy, Debug)]
pub enum EntrySchedule {
    /// On a grid from the epoch.
    Every {
        /// The interval in ms.
        interval_ms: u64,
        /// The shift of the grid in ms.
        offset_ms: u64,
    },
    /// By a cron line.
    Cron {
        /// The line.
        expression: &'static str,
        /// `unix` or `quartz`.
        dialect: anarchon_schedule::Dialect,
        /// An IANA name; none is the scheduler's zone.
        timezone: Option<&'static str>,
    },
    /// Once.
    At {
        /// A local time, or one with its own offset.
        time: &'static str,
        /// An IANA name; none is the scheduler's zone.
        timezone: Option<&'static str>,
    },
}

/// The options that an attribute sets; what it leaves out is `None`.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct EntryOptions {
    pub jitter_ms: Option<u64>,
    pub max_late_ms: Option<u64>,
    pub timeout_ms: Option<u64>,
    pub history_size: Option<u32>,
    pub history_ttl_ms: Option<u64>,
    pub overlap: Option<Overlap>,
    pub max_attempts: Option<u32>,
    pub retry_failed_ms: Option<u64>,
    pub catch_up_ms: Option<u64>,
    pub takeover_within_ms: Option<u64>,
}

impl EntryOptions {
    /// None set.
    pub const NONE: Self = Self {
        jitter_ms: None,
        max_late_ms: None,
        timeout_ms: None,
        history_size: None,
        history_ttl_ms: None,
        overlap: None,
        max_attempts: None,
        retry_failed_ms: None,
        catch_up_ms: None,
        takeover_within_ms: None,
    };
}

/// One annotated job.
pub struct JobEntry {
    /// Its name.
    pub name: &'static str,
    /// Its schedule.
    pub schedule: EntrySchedule,
    /// Its options.
    pub options: EntryOptions,
    /// Makes its handler.
    pub handler: fn() -> BoxHandler,
    /// Makes its data.
    pub data: Option<fn() -> DataValue>,
    /// Where it was declared.
    pub place: Place,
}

impl fmt::Debug for JobEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobEntry").field("name", &self.name).field("place", &self.place).finish_non_exhaustive()
    }
}

inventory::collect!(JobEntry);

/// Every annotated job that is linked into the program, sorted by name and place, since link order means nothing.
pub(crate) fn entries() -> Vec<&'static JobEntry> {
    let mut entries: Vec<&'static JobEntry> = inventory::iter::<JobEntry>.into_iter().collect();
    entries.sort_by_key(|entry| (entry.name, entry.place.file, entry.place.line));
    entries
}
