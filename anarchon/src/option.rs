//! Option values, and the markers that say which options a store must be able to honour.
//!
//! The markers are public so that the compiler's messages can name them shortly; nobody needs to use them.

use std::fmt;
use std::time::Duration;

use crate::backend::{FinishIn, HistoryByAge, LeaseBackend};

/// What happens to a slot that falls due while another run of its job is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Overlap {
    /// The slot is recorded as skipped (the default, on stores with leases).
    #[default]
    Skip,
    /// The slot is run beside the other one.
    Allow,
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Skip => "skip",
            Self::Allow => "allow",
        })
    }
}

/// How much history a job keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retention {
    /// Started attempts kept per job; and as many records of skipped slots.
    pub size: u32,
    /// Records older than this are dropped, if set.
    pub ttl: Option<Duration>,
}

impl Retention {
    /// Keeps `size` attempts, and none older than `ttl` if that is set.
    #[must_use]
    pub const fn new(size: u32, ttl: Option<Duration>) -> Self {
        Self { size, ttl }
    }
}

impl Default for Retention {
    /// 100 attempts, of any age.
    fn default() -> Self {
        Self { size: 100, ttl: None }
    }
}

/// Backend `Self` can honour the option that `O` stands for, which needs leases.
///
/// Never implemented by hand: every [`LeaseBackend`] supports these options.
#[diagnostic::on_unimplemented(
    message = "the `{O}` option needs a backend with leases, and `{Self}` has none",
    label = "not available on `{Self}`",
    note = "leases are held by `SqliteBackend`, `PostgresBackend`, `MySqlBackend`, `RedisBackend` and every other `LeaseBackend`"
)]
pub trait Supports<O> {}

/// Like [`Supports`], for the option `lease`, whose name stands for more than the option.
#[diagnostic::on_unimplemented(
    message = "the `lease` option needs a backend with leases, and `{Self}` has none",
    label = "not available on `{Self}`",
    note = "leases are held by `SqliteBackend`, `PostgresBackend`, `MySqlBackend`, `RedisBackend` and every other `LeaseBackend`"
)]
pub trait SupportsLease {}

#[diagnostic::do_not_recommend]
impl<B: LeaseBackend> SupportsLease for B {}

/// Backend `Self` can drop history that is older than a limit, as the option `history_ttl` wants it.
///
/// Never implemented by hand: every [`HistoryByAge`] store does.
#[diagnostic::on_unimplemented(
    message = "the `history_ttl` option needs a backend that trims history by age, and `{Self}` does not",
    label = "not available on `{Self}`",
    note = "`history_size` limits the history on every backend"
)]
pub trait SupportsHistoryTtl {}

#[diagnostic::do_not_recommend]
impl<B: HistoryByAge> SupportsHistoryTtl for B {}

/// Backend `Self` can finish runs inside transactions of `Db`, as an argument `Finish<Db>` wants it.
///
/// Never implemented by hand: every [`FinishIn<Db>`] does.
#[diagnostic::on_unimplemented(
    message = "`Finish<{Db}>` needs the jobs to be kept in that database, and `{Self}` does not",
    label = "not available on `{Self}`",
    note = "a run is finished inside a transaction of the very database that holds it; without, use `Context::fence` or `Context::slot_ms`"
)]
pub trait SupportsFinish<Db> {}

#[diagnostic::do_not_recommend]
impl<B: FinishIn<Db>, Db> SupportsFinish<Db> for B {}

/// `Self` builds something for backend `B`.
///
/// Bounds on the backend are written with it, so that the compiler underlines the option and not all that stands before.
pub trait On<B> {}

/// One empty type per option that needs leases, named like the option so that the compiler's messages read well.
#[allow(non_camel_case_types)]
pub mod marker {
    use super::{LeaseBackend, Supports};

    macro_rules! lease_options {
        ($($option:ident)+) => {$(
            #[doc = concat!("Stands for the option `", stringify!($option), "`.")]
            #[derive(Debug)]
            pub enum $option {}

            #[diagnostic::do_not_recommend]
            impl<B: LeaseBackend> Supports<$option> for B {}
        )+};
    }

    lease_options!(overlap max_attempts retry_failed catch_up takeover_within heartbeat watch);
}
