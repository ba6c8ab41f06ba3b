//! Option values, and the markers that say which options a store must be able to honour.
//!
//! The markers are public so that the compiler's messages can name them shortly; nobody needs to use them.

use std::fmt;
use std::time::Duration;

use crate::backend::{HistoryByAge, LeaseBackend};

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

/// Backend `Self` can honour the option that `O` stands for.
///
/// Never implemented by hand: every [`LeaseBackend`] supports the options that need leases, and every
/// [`HistoryByAge`] store supports [`history_ttl`](marker::history_ttl).
#[diagnostic::on_unimplemented(
    message = "the `{O}` option is not available on backend `{Self}`",
    label = "`{Self}` cannot honour this",
    note = "options about leases need a backend with leases, and `history_ttl` one that trims by age"
)]
pub trait Supports<O> {}

/// One empty type per option that not every store can honour, named like the option so that the compiler's messages
/// read well.
#[allow(non_camel_case_types)]
pub mod marker {
    use super::{HistoryByAge, LeaseBackend, Supports};

    macro_rules! lease_options {
        ($($option:ident)+) => {$(
            #[doc = concat!("Stands for the option `", stringify!($option), "`, which needs a store with leases.")]
            #[derive(Debug)]
            pub enum $option {}

            #[diagnostic::do_not_recommend]
            impl<B: LeaseBackend> Supports<$option> for B {}
        )+};
    }

    lease_options!(overlap max_attempts retry_failed catch_up takeover_within lease heartbeat watch);

    /// Stands for the option `history_ttl`, which needs a store that can trim by age.
    #[derive(Debug)]
    pub enum history_ttl {}

    #[diagnostic::do_not_recommend]
    impl<B: HistoryByAge> Supports<history_ttl> for B {}
}
