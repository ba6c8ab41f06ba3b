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
//! `lease_conformance!(#[ignore = "needs REDIS_URL"] redis, fixture)`. A store that trims by age adds
//! [`history_by_age_conformance!`](crate::history_by_age_conformance); one that only claims uses
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
pub mod claim_only;
pub mod fuzz;
pub mod history;
pub mod known;
pub mod late;
pub mod manual;
pub mod many;
pub mod names;
pub mod overlap;
pub mod packets;
pub mod pause;
pub mod race;
pub mod register;
pub mod retry;
mod support;
pub mod trim;
#[cfg(feature = "_sqlx")]
pub mod within;

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

    /// Whether the store is there. Without it no rule is run, and the test passes: say so in the log where that is
    /// expected, and make it a failure elsewhere.
    fn is_there(&self) -> bool {
        true
    }

    /// Removes what the fixture left in the store; called when a rule has passed.
    fn clean_up(&self) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// A [`Fixture`] whose runs can be finished inside transactions of the user's own.
#[cfg(feature = "_sqlx")]
pub trait Transactions: Fixture<Backend: crate::backend::FinishIn<Self::Db>> {
    /// The database of sqlx.
    type Db: crate::backend::sql::FinishDatabase;

    /// Whether a transaction locks the rows that it writes, and leaves others to other writers.
    const LOCKS_ROWS: bool;

    /// A transaction on the same database, begun on a connection that is not the store's.
    fn begin(&self) -> impl Future<Output = sqlx::Transaction<'static, Self::Db>> + Send;

    /// One whose isolation level is stricter than READ COMMITTED, where there are levels.
    fn begin_stricter(&self) -> impl Future<Output = Option<sqlx::Transaction<'static, Self::Db>>> + Send;
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
        if !fixture.is_there() {
            return;
        }
        match tokio::time::timeout(RULE_LIMIT, rule(&fixture)).await {
            Ok(()) => fixture.clean_up().await,
            Err(_) => panic!("the rule took longer than {RULE_LIMIT:?}"),
        }
    });
}

/// Makes one test per rule for a backend with leases: a name for the module, and what makes a
/// [`Fixture`]. See [`testing::conformance`](crate::testing::conformance).
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
            late {
                a_slot_older_than_the_limit_is_late_and_undecided
                a_slot_within_the_limit_is_not_late
                a_slot_at_or_before_the_floor_is_late
                the_floor_in_the_store_decides
                a_floor_the_store_has_lost_is_taken_from_the_claim
                floors_are_kept_per_schedule
                a_takeover_moves_no_floor
                a_stale_claim_is_refused_and_writes_nothing
                a_stale_claim_renews_no_lease
                a_stale_claim_takes_nothing_over
                a_stale_claim_records_no_skip
            }
            overlap {
                a_slot_beside_a_live_run_is_skipped_for_everyone
                under_allow_slots_run_beside_each_other
                a_catch_up_beside_a_live_run_is_asked_again
                a_newer_live_run_blocks_an_older_slot
                a_dead_run_that_can_be_taken_over_blocks_new_slots
                a_released_run_blocks_new_slots
                an_expired_or_used_up_run_blocks_nobody
                runs_of_other_jobs_block_nobody
                a_takeover_beside_a_live_run_waits
                under_allow_a_takeover_minds_nobody
                two_dead_runs_do_not_block_each_other_for_ever
                winning_again_revives_no_lease_beside_a_live_run
                winning_again_revives_no_lease_beside_a_retry
                a_newer_slot_supersedes_waiting_runs
                under_allow_waiting_runs_keep_their_retries
                a_skipped_slot_supersedes_nothing
                skips_in_a_row_are_one_record
                a_gap_begins_a_new_skip_record
                another_reason_begins_a_new_skip_record
                a_run_between_parts_the_skip_records
            }
            pause {
                a_pause_says_who_when_and_why
                a_paused_jobs_slot_is_skipped_for_everyone
                a_paused_jobs_catch_up_is_asked_again
                a_pause_stops_no_running_attempt
                a_paused_jobs_runs_wait_to_be_taken_over
                paused_comes_before_overlap
                late_and_gone_come_before_paused
                a_pause_keeps_no_expired_run_open
            }
            packets {
                a_claim_copy_after_its_attempt_ended_is_done
                a_claim_copy_does_not_disturb_the_next_attempt
                a_heartbeat_after_its_attempt_ended_is_lost
                a_heartbeat_revives_no_lease
                a_heartbeat_moves_the_lease_forward_only
                a_heartbeat_keeps_a_lease_going
                a_foreign_token_proves_nothing
                a_token_of_another_run_proves_nothing
                a_finish_after_the_lease_but_before_a_takeover_is_recorded
                a_release_after_the_lease_but_before_a_takeover_is_accepted
                a_frozen_runner_cannot_finish_after_a_takeover
                a_frozen_runner_cannot_finish_a_dead_run
                a_finish_sent_twice_is_answered_the_same
                a_finish_sent_twice_moves_no_retry
                a_release_sent_twice_is_answered_the_same
                the_first_of_finish_and_release_decides
                the_first_ending_stands
                a_return_that_overtook_its_claim_is_lost_and_repeated
                a_late_copy_of_a_losing_claim_can_be_given_back
            }
            retry {
                a_failed_attempt_waits_for_its_retry
                any_instance_restarts_a_run_whose_wait_is_over
                the_wait_doubles_until_no_attempt_is_left
                a_wait_is_ten_minutes_at_most
                without_retry_failed_a_failure_is_final
                a_last_ending_is_never_retried
                a_run_that_ended_well_is_not_retried
                retry_failed_is_that_of_the_first_claim
                lost_and_failed_attempts_count_alike
                a_retry_can_be_handed_over
            }
            manual {
                a_manual_run_starts_now_with_a_lease
                a_manual_claim_sent_twice_starts_one_run
                a_manual_claim_sent_twice_renews_its_lease
                a_stale_manual_claim_starts_nothing
                manual_runs_touch_no_slot
                plain_manual_runs_mind_nobody_and_block_nobody
                an_exclusive_manual_run_is_refused_beside_a_live_run
                an_exclusive_manual_run_minds_no_dead_run
                an_exclusive_manual_run_blocks_slots
                a_manual_run_is_dead_after_its_lease
                a_paused_job_can_be_run_by_hand
                a_trimmed_manual_run_moves_no_trim_mark
                a_manual_run_that_was_given_back_is_over
                manual_tokens_prove_nothing_elsewhere
            }
            register {
                a_floor_is_set_once
                another_schedule_gets_a_floor_of_its_own
                instances_that_disagree_are_named
                instances_that_agree_are_not_named
                a_claim_disagrees_with_nobody
                registrations_are_answered_in_their_order
                registering_at_once_gives_one_floor
                a_job_that_nobody_registers_is_forgotten
                a_job_that_is_registered_is_kept
                a_paused_job_is_never_forgotten
            }
            known {
                nothing_is_known_of_a_job_that_nobody_named
                schedules_are_known_with_their_floors
                the_pause_and_the_trim_mark_are_known
                unfinished_runs_are_those_that_backups_see
                a_store_in_use_is_found_by_who_only_reads
            }
            trim {
                the_oldest_attempts_go_and_their_slots_stay_decided
                nothing_goes_within_the_size
                what_is_younger_than_keep_stays
                an_unfinished_run_never_goes
                a_trim_closes_dead_runs
                skip_records_go_and_their_slots_stay_decided
                trim_marks_are_the_jobs_own_and_only_rise
                several_jobs_are_trimmed_at_once
            }
            history {
                an_attempt_is_told_from_start_to_end
                every_attempt_of_a_run_is_told
                the_newest_slot_comes_first
                history_is_the_jobs_own
                error_texts_come_back_word_for_word
                other_texts_come_back_word_for_word
            }
            names {
                every_name_is_a_job_of_its_own
                plain_names_are_always_taken
            }
            many {
                many_claims_are_answered_as_one_at_a_time
                a_batch_of_one_and_of_none_are_batches
                many_heartbeats_are_answered_as_one_at_a_time
                many_finishes_are_answered_as_one_at_a_time
                many_releases_are_answered_as_one_at_a_time
            }
            race {
                every_slot_has_exactly_one_winner
                copies_of_one_claim_win_together
                two_slots_under_skip_never_both_run
                a_dead_run_is_taken_over_by_exactly_one
                two_dead_runs_under_skip_are_never_both_taken_over
                a_late_finish_and_a_takeover_exclude_each_other
                exclusive_manual_runs_and_slots_never_both_run
                copies_of_one_manual_claim_start_one_run
                racing_batches_win_each_job_once
                fences_grow_with_every_win
            }
            fuzz {
                random_calls_keep_their_promises
                random_calls_at_once_keep_their_promises
            }
        }
    };
}

/// Makes one test per rule for a backend that only claims: a name for the module, and what makes a
/// [`Fixture`]. See [`testing::conformance`](crate::testing::conformance).
#[macro_export]
macro_rules! claim_conformance {
    ($(#[$attribute:meta])* $store:ident, $fixture:expr $(,)?) => {
        $crate::__conformance_module! {
            [$(#[$attribute])*] $store, $fixture,
            claim_only {
                the_first_token_wins
                the_winners_token_wins_again
                slots_and_jobs_are_decided_apart
                every_slot_has_exactly_one_winner
                copies_of_one_claim_win_together
                a_slot_in_the_future_is_early
                a_slot_older_than_the_limit_is_late
                a_slot_beyond_the_stores_memory_is_late
                a_stale_claim_is_refused
                newer_slots_push_none_out
                a_slot_is_remembered_as_long_as_declared
                history_joins_claims_and_results
                a_finish_sent_twice_is_recorded_once
                error_texts_come_back_word_for_word
                manual_runs_touch_no_slot
                history_keeps_the_newest
                many_claims_are_answered_as_one_at_a_time
                registering_and_connecting_again_undo_nothing
                memory_is_declared_and_plain_names_are_taken
            }
        }
    };
}

/// Makes one test per rule about age for a backend that implements [`HistoryByAge`](crate::HistoryByAge) and has leases.
/// See [`testing::conformance`](crate::testing::conformance).
#[macro_export]
macro_rules! history_by_age_conformance {
    ($(#[$attribute:meta])* $store:ident, $fixture:expr $(,)?) => {
        $crate::__conformance_module! {
            [$(#[$attribute])*] $store, $fixture,
            trim {
                what_is_older_than_its_ttl_goes
            }
        }
    };
}

/// Makes one test per rule about transactions of the user's own, for a backend that implements
/// [`FinishIn`](crate::backend::FinishIn) and a fixture with [`Transactions`].
/// See [`testing::conformance`](crate::testing::conformance).
#[cfg(feature = "_sqlx")]
#[macro_export]
macro_rules! transactional_finish_conformance {
    ($(#[$attribute:meta])* $store:ident, $fixture:expr $(,)?) => {
        $crate::__conformance_module! {
            [$(#[$attribute])*] $store, $fixture,
            within {
                a_commit_makes_the_run_done
                a_rollback_leaves_the_run_running
                a_committed_end_is_told_like_any_other
                a_retried_run_can_be_committed
                a_runner_that_lost_its_run_is_refused
                a_lease_that_is_over_and_was_not_taken_over_is_no_hindrance
                what_is_not_open_cannot_be_committed
                a_second_call_is_refused
                an_end_unless_done_finds_what_was_committed
                a_manual_run_can_be_committed
                a_late_commit_and_a_takeover_exclude_each_other
                an_open_transaction_holds_up_no_beat
                an_open_transaction_holds_up_no_claim
                a_stricter_isolation_is_refused
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    /// Each topic's source, to be held against the lists of the macros.
    const TOPICS: [(&str, &str); 17] = [
        ("claim", include_str!("claim.rs")),
        ("claim_only", include_str!("claim_only.rs")),
        ("fuzz", include_str!("fuzz.rs")),
        ("history", include_str!("history.rs")),
        ("known", include_str!("known.rs")),
        ("late", include_str!("late.rs")),
        ("manual", include_str!("manual.rs")),
        ("many", include_str!("many.rs")),
        ("names", include_str!("names.rs")),
        ("overlap", include_str!("overlap.rs")),
        ("packets", include_str!("packets.rs")),
        ("pause", include_str!("pause.rs")),
        ("race", include_str!("race.rs")),
        ("register", include_str!("register.rs")),
        ("retry", include_str!("retry.rs")),
        ("trim", include_str!("trim.rs")),
        ("within", include_str!("within.rs")),
    ];

    #[test]
    fn every_rule_is_in_the_list_of_a_macro() {
        let mut written = BTreeSet::new();
        for (topic, source) in TOPICS {
            for line in source.lines().filter_map(|line| line.strip_prefix("pub async fn ")) {
                let rule = line.split_once('<').map_or(line, |(name, _)| name);
                if rule != "run_seed" {
                    written.insert((topic, rule));
                }
            }
        }
        let mut listed = BTreeSet::new();
        let mut topic = "";
        for line in include_str!("mod.rs").lines().filter(|line| line.starts_with("            ")) {
            let word = line.trim();
            if let Some(name) = word.strip_suffix(" {").filter(|name| TOPICS.iter().any(|(topic, _)| topic == name)) {
                topic = name;
            } else if line.starts_with("                ") && word.chars().all(|c| c.is_ascii_lowercase() || c == '_') {
                listed.insert((topic, word));
            }
        }
        assert_eq!(written.difference(&listed).collect::<Vec<_>>(), Vec::<&(&str, &str)>::new(), "not in any list");
        assert!(written.len() > 150, "{} rules were found", written.len());
    }
}
