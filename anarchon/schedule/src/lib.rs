//! Schedules as pure functions from time to slots.
//!
//! A *slot* is a scheduled time, in milliseconds since the Unix epoch. This crate reads the texts that describe
//! schedules and answers two questions about them: which slot comes next after an instant, and which is the latest one
//! at or before it. It reads no clock, does no I/O and never panics, whatever the input, so that every instance of a
//! service computes the same slots.
//!
//! Three kinds of schedule exist:
//!
//! - [`Every`]: an interval on a grid anchored at the Unix epoch,
//! - [`Cron`]: a cron line in a time zone,
//! - [`At`]: one instant.
//!
//! # Example: the next slots of a cron line
//!
//! ```
//! use anarchon_schedule::{Cron, Dialect, Schedule, zone};
//!
//! let paris = zone::parse("Europe/Paris")?;
//! let digest = Schedule::from(Cron::parse("0 8 * * MON-FRI", Dialect::Unix, paris)?);
//!
//! let friday = 1_768_550_400_000; // 2026-01-16T08:00:00Z, an hour after Friday's slot
//! let monday = digest.next(friday).unwrap();
//! assert_eq!(monday, 1_768_806_000_000); // 2026-01-19T07:00:00Z
//! assert_eq!(digest.latest(monday), Some(monday));
//!
//! let error = Cron::parse("0 8 * * MONFRI", Dialect::Unix, paris).unwrap_err();
//! assert_eq!(error.to_string(), "`MONFRI` is not a weekday; weekdays are 0-7 (0 and 7 are Sunday) or SUN-SAT");
//! # Ok::<(), anarchon_schedule::ParseError>(())
//! ```

mod at;
mod cron;
mod error;
mod every;
pub mod interval;
pub mod name;
mod schedule;
pub mod suggest;
mod words;
pub mod zone;

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use at::At;
pub use cron::{Cron, Dialect};
pub use error::ParseError;
pub use every::Every;
pub use schedule::Schedule;
