//! For tests of backends and of jobs.
pub mod conformance;
