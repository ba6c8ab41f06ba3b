//! Everything that generated code may name, and nothing else. No part of the public contract.

use std::future::Future;

pub use anarchon_schedule::Dialect;
pub use inventory;

pub use crate::extract::{BoxHandler, DataValue, Extract, Handler};
pub use crate::option::{Overlap, Supports, marker};
pub use crate::registry::{EntryOptions, EntrySchedule, JobEntry};
pub use crate::scheduler::entry::{FromEnv, MainError, run_main};
pub use crate::slot::Place;

/// What the backend's alias means in a crate that has none.
pub mod fallback {
    /// No backend was named: only `start()` can tell what the store honours.
    #[derive(Debug)]
    pub enum Undecided {}

    impl<O> super::Supports<O> for Undecided {}

    /// The alias that `anarchon::main!` and `anarchon::backend!` put at the crate root shadows this one.
    pub type __AnarchonBackend = Undecided;
}

/// A job's handler, for the attribute.
pub fn handler<Args, H: Handler<Args>>(handler: H) -> BoxHandler {
    BoxHandler::new(handler)
}

/// Fails to compile, at the option that the call is spanned to, when backend `B` cannot honour `O`.
pub const fn assert_supports<B: Supports<O>, O>() {}

/// Fails to compile, at the argument that the call is spanned to, when it is no extractor.
pub const fn assert_extractor<T: Extract>() {}

/// Fails to compile when the function's future is not one that can run on another thread.
pub fn assert_future<F: Future + Send>(_: &F) {}
