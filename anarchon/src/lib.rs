//! Scheduled jobs in a service with more than one instance: exactly one instance runs each scheduled time.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
pub mod backend;
pub mod catalogue;
mod clock;
mod context;
mod duration;
mod error;
mod event;
mod extract;
mod history;
mod job;
pub mod lease;
pub mod option;
mod registry;
pub mod run;
mod scheduler;
mod slot;
#[cfg(feature = "testing")]
pub mod testing;

pub use anarchon_macros::{backend, job, main};
pub use anarchon_schedule::{Dialect, ParseError, Schedule, interval};
pub use backend::{
    AnyBackend, AnyClaimBackend, Backend, ClaimBackend, ClaimOnlyMemoryBackend, HistoryByAge, LeaseBackend,
    MemoryBackend,
};
pub use clock::{Clock, SystemClock};
pub use context::{CancelReason, Context};
pub use duration::IntoDuration;
pub use error::{BackendError, BackendErrorKind, BoxError, Error, Result};
pub use event::Event;
pub use extract::{Data, Extract, Handler, HandlerResult, Outcome, State};
pub use option::{Overlap, Retention};
pub use run::{AttemptRecord, AttemptStatus, Reason, Record, RunKey, SkipReason, SkipRecord, Status};
pub use scheduler::entry::FromEnv;
pub use scheduler::{JobBuilder, JobInfo, ManualRun, Scheduler, SchedulerBuilder, kind};
pub use slot::{InstanceId, JobName, Place, Slot, Token};
