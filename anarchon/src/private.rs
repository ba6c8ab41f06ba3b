//! Everything that generated code may name, and nothing else. No part of the public contract.

use std::future::Future;

pub use anarchon_schedule::Dialect;
pub use inventory;

use crate::backend::{AnyStrength, Backend};
#[cfg(feature = "cli")]
pub use crate::cli::run_main;
use crate::context::HandlerFuture;
use crate::error::{BoxError, Error};
use crate::extract::{BoxHandler, DataValue, Extract, HandlerResult, NeedOf, Outcome, RunParts, TakenOn};
pub use crate::option::{Overlap, marker};
use crate::option::{Supports, SupportsFinish, SupportsHistoryTtl};
pub use crate::registry::{EntryOptions, EntrySchedule, JobEntry};
use crate::scheduler::entry::FromEnv;
pub use crate::scheduler::entry::MainError;
#[cfg(not(feature = "cli"))]
pub use crate::scheduler::entry::run_main;
use crate::scheduler::{Scheduler, SchedulerBuilder};
pub use crate::slot::Place;

/// What the backend's alias means in a crate that has none.
pub mod fallback {
    use super::{Supports, SupportsFinish, SupportsHistoryTtl};

    /// No backend was named: only `start()` can tell what the store honours.
    #[derive(Debug)]
    pub enum Undecided {}

    #[diagnostic::do_not_recommend]
    impl<O> Supports<O> for Undecided {}

    #[diagnostic::do_not_recommend]
    impl SupportsHistoryTtl for Undecided {}

    #[diagnostic::do_not_recommend]
    impl super::Names for Undecided {
        const PLAIN: bool = false;
    }

    #[diagnostic::do_not_recommend]
    impl<Db> SupportsFinish<Db> for Undecided {}

    /// The alias that `anarchon::main!` and `anarchon::backend!` put at the crate root shadows this one.
    pub type __AnarchonBackend = Undecided;

    /// Shadowed where `anarchon::main!` is told, in a form that it can read, how long the store remembers a slot, in ms.
    pub const __ANARCHON_WINDOW_MS: u64 = 0;
}

/// Fails to compile, at the option that the call is spanned to, when backend `B` has no leases for option `O`.
pub const fn supports<B: Supports<O>, O>() {}

/// Fails to compile, at the option that the call is spanned to, when backend `B` does not trim history by age.
pub const fn supports_history_ttl<B: SupportsHistoryTtl>() {}

/// Fails to compile, at the option that the call is spanned to, when history of this age may be dropped while it still
/// decides slots. Both are in ms.
#[track_caller]
pub const fn assert_outlasts_window(history_ttl: u64, window: u64) {
    if history_ttl <= window {
        panic!("`history_ttl` must be longer than the window of the `script` strategy: what it drops decides slots");
    }
}

/// What a backend says about jobs' names.
pub trait Names {
    /// [`Backend::PLAIN_NAMES`].
    const PLAIN: bool;
}

#[diagnostic::do_not_recommend]
impl<B: Backend> Names for B {
    const PLAIN: bool = B::PLAIN_NAMES;
}

/// Fails to compile, at the name that the call is spanned to and that has other signs, when backend `B` takes plain names
/// only.
#[track_caller]
pub const fn takes_any_name<B: Names>() {
    assert!(
        !B::PLAIN,
        "this backend takes only ASCII letters, digits, `_` and `-` in a job's name; give it another with `name = \"…\"`"
    );
}

/// Fails to compile, at the argument that the call is spanned to, when a job on backend `B` cannot take an `A`.
pub const fn taken_on<B, A: TakenOn<B>>() {}

/// `Self` is `T`. Where the alias is searched at the crate root and another one is found, it is not.
#[diagnostic::on_unimplemented(
    message = "the backend must be named at the crate root",
    label = "not at the crate root, where every `#[anarchon::job]` of the crate looks for it",
    note = "write this in `main.rs` or `lib.rs`, outside of any module and function"
)]
pub trait Is<T> {}

#[diagnostic::do_not_recommend]
impl<T> Is<T> for T {}

/// Fails to compile unless `Found`, the alias at the crate root, is `Named`, the one just declared, and `module`, the
/// place of the call, is that root.
#[track_caller]
pub const fn assert_at_root<Found: Is<Named>, Named>(module: &str) {
    let bytes = module.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b':' {
            panic!("the backend must be named at the crate root: in `main.rs` or `lib.rs`, outside of any module");
        }
        at += 1;
    }
}

/// One argument of a handler. The bound is asked for when it is made and nowhere else, so that a wrong type is one
/// error.
pub struct Argument<T> {
    need: fn() -> Option<NeedOf>,
    take: fn(&RunParts<'_>) -> Result<T, BoxError>,
}

/// The argument of type `T`.
pub fn argument<T: Extract>() -> Argument<T> {
    Argument { need: T::need, take: T::extract }
}

impl<T> Argument<T> {
    /// What it needs to have been given.
    pub fn need(&self) -> Option<NeedOf> {
        (self.need)()
    }

    /// Its value in one run.
    ///
    /// # Errors
    /// When something that it needs was not given.
    pub fn take(&self, parts: &RunParts<'_>) -> Result<T, BoxError> {
        (self.take)(parts)
    }
}

impl<T> std::fmt::Debug for Argument<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Argument").finish_non_exhaustive()
    }
}

/// What a handler returned, as a result.
///
/// # Errors
/// When the handler returned one.
pub fn outcome<T: Outcome>(returned: T) -> HandlerResult {
    returned.into_result()
}

/// A run's future, and what its output comes to.
pub fn run<F>(future: F, outcome: fn(F::Output) -> HandlerResult) -> HandlerFuture
where
    F: Future + Send + 'static,
{
    Box::pin(async move { outcome(future.await) })
}

/// A job's handler: what its arguments need, and how to begin a run.
pub fn handler<const N: usize>(
    needs: [Option<NeedOf>; N],
    begin: impl Fn(&RunParts<'_>) -> Result<HandlerFuture, BoxError> + Send + Sync + 'static,
) -> BoxHandler {
    let begin =
        move |parts: &RunParts<'_>| begin(parts).unwrap_or_else(|missing| Box::pin(async move { Err(missing) }));
    BoxHandler::from_parts(needs.into_iter().flatten(), begin)
}

/// A job's own value.
pub fn data<T: Clone + Send + Sync + 'static>(value: T) -> DataValue {
    DataValue::new(value)
}

/// The scheduler of a program whose backend finds its store by itself.
///
/// # Errors
/// When the environment names no such store.
pub fn begin<B: FromEnv>() -> Result<SchedulerBuilder<B>, Error> {
    Ok(begin_on(B::from_env()?))
}

/// The scheduler of a program on `backend`.
pub fn begin_on<B: AnyStrength>(backend: B) -> SchedulerBuilder<B> {
    Scheduler::builder(backend).registered()
}
