//! The conformance suite: what a backend must do, as tests that run against any store.
//!
//! It is the definition of done for a backend, ours and yours alike. One macro line in an integration test makes one
//! `#[test]` per rule, so that a rule that is broken is visible by its name:
//!
//! ```
//! use anarchon::MemoryBackend;
//! use anarchon::testing::conformance::Shared;
//!
//! anarchon::lease_conformance!(memory, || async { Shared(MemoryBackend::new()) });
//! # fn main() {}
//! ```
//!
//! The second argument is called once per test and gives a [`Fixture`]: an empty store, or an empty corner of one, that
//! hands out any number of clients. Attributes before the name go to every test, as in
//! `lease_conformance!(#[ignore = "needs REDIS_URL"] redis, fixture)`. A store that only claims uses
//! [`claim_conformance!`](crate::claim_conformance).
//!
//! Every rule is also a plain `async fn` in the module of its topic, to be called by hand. The rules run on the store's
//! own clock, wait for events instead of sleeping, and hold on a slow machine; all of one store may run in parallel.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "an assertion that panics is how a rule says that a backend breaks it"
)]

pub mod claim;
mod support;

use std::fmt;
use std::future::Future;
use std::time::Duration;

use crate::backend::Backend;

/// An empty store, or an empty corner of one, that hands out clients.
///
/// # Contract
/// Every client of one fixture sees the same store; no two fixtures share anything that a client can see, such as
/// tables, keys or job names. The suite itself calls [`connect`](Backend::connect) on each client.
///
/// ```
/// use anarchon::MemoryBackend;
/// use anarchon::testing::conformance::Fixture;
///
/// struct Memory(MemoryBackend);
///
/// impl Fixture for Memory {
///     type Backend = MemoryBackend;
///
///     async fn backend(&self) -> MemoryBackend {
///         self.0.clone() // a real store would open another connection to the same namespace
///     }
/// }
/// ```
pub trait Fixture: Send + Sync + 'static {
    /// The backend under test.
    type Backend: Backend;

    /// A new client of this fixture's store, not connected yet.
    fn backend(&self) -> impl Future<Output = Self::Backend> + Send;

    /// Removes what the fixture left in the store; called when a rule has passed.
    fn clean_up(&self) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// The fixture of a backend whose clones share one store.
#[derive(Clone, Copy, Debug)]
pub struct Shared<B>(
    /// The store.
    pub B,
);

impl<B: Backend + Clone> Fixture for Shared<B> {
    type Backend = B;

    async fn backend(&self) -> B {
        self.0.clone()
    }
}

/// How long one rule may take before it counts as broken.
const RULE_LIMIT: Duration = Duration::from_secs(180);

/// Runs one rule on a runtime of its own with two threads. The macros call it; use it to call a rule by hand.
///
/// # Panics
/// When the rule is broken, takes longer than 3 minutes, or no runtime can be made.
pub fn run<F, M>(make: impl FnOnce() -> M, rule: impl AsyncFnOnce(&F))
where
    F: Fixture,
    M: Future<Output = F>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a tokio runtime").block_on(async {
        let fixture = make().await;
        match tokio::time::timeout(RULE_LIMIT, rule(&fixture)).await {
            Ok(()) => fixture.clean_up().await,
            Err(_) => panic!("the rule took longer than {RULE_LIMIT:?}"),
        }
    });
}

/// Makes one test per rule for a backend with leases: a name for the module, and what makes a
/// [`Fixture`](crate::testing::conformance::Fixture). See [`testing::conformance`](crate::testing::conformance).
#[macro_export]
macro_rules! lease_conformance {
    ($(#[$attribute:meta])* $store:ident, $fixture:expr $(,)?) => {
        $crate::__conformance_module! {
            [$(#[$attribute])*] $store, $fixture,
            claim {
                a_slot_in_the_future_is_early
                an_early_claim_asked_again_with_its_token_wins
                a_free_slot_is_won_as_attempt_one
                a_catch_up_is_won_as_one
                the_same_token_wins_again_and_changes_nothing
                winning_again_renews_the_lease_and_never_shortens_it
                winning_again_comes_before_closing_what_is_used_up
                another_token_finds_a_live_run_running
                a_finished_run_is_done_with_its_status
                a_run_whose_lease_is_over_is_taken_over
                a_takeover_is_never_too_late
                a_run_nobody_took_over_in_time_is_dead
                a_waiting_run_nobody_took_over_in_time_ends_as_its_last_attempt
                a_run_whose_attempts_are_used_up_is_dead
                hand_overs_and_returns_cost_no_attempt
                a_returned_attempt_gives_its_number_back
                twenty_releases_close_a_run
                a_takeover_of_no_run_is_gone_and_decides_nothing
                max_attempts_are_those_of_the_first_claim
                takeover_within_is_that_of_the_first_claim
                what_is_expired_or_used_up_is_closed_by_the_next_claim_of_its_job
                slots_and_jobs_are_decided_apart
                a_second_client_sees_the_same_store
                connecting_again_keeps_everything
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_module {
    ($attributes:tt $store:ident, $fixture:expr, $($topic:ident { $($rule:ident)* })*) => {
        mod $store {
            #[allow(unused_imports)]
            use super::*;
            $crate::__conformance_topics! { $attributes $fixture, $($topic { $($rule)* })* }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_topics {
    ($attributes:tt $fixture:expr,) => {};
    ($attributes:tt $fixture:expr, $topic:ident { $($rule:ident)* } $($rest:tt)*) => {
        mod $topic {
            #[allow(unused_imports)]
            use super::*;
            $crate::__conformance_tests! { $attributes $fixture, $topic $($rule)* }
        }
        $crate::__conformance_topics! { $attributes $fixture, $($rest)* }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_tests {
    ($attributes:tt $fixture:expr, $topic:ident) => {};
    ([$(#[$attribute:meta])*] $fixture:expr, $topic:ident $rule:ident $($rest:ident)*) => {
        $(#[$attribute])*
        #[test]
        fn $rule() {
            $crate::testing::conformance::run($fixture, $crate::testing::conformance::$topic::$rule);
        }
        $crate::__conformance_tests! { [$(#[$attribute])*] $fixture, $topic $($rest)* }
    };
}
