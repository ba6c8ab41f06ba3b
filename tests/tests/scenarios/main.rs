//! What users are promised, with real processes on one store: they are killed, frozen and stopped, and their logs must
//! show that each slot was run as often as it should be, and never twice at once.

#![cfg(unix)]
#![allow(clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod blocking;
mod catch_up;
mod crash;
mod deploy;
mod effects;
mod failure;
mod files;
mod freeze;
mod once;
mod outage;
mod overlap;
mod pause;
mod quickstart;
mod server;
mod stop;
mod stores;
mod ticks;

use std::time::Duration;

/// Makes a test of each scenario on each store. One that is in no list is dead code.
macro_rules! on_each {
    ([$($store:ident),+] $scenarios:tt) => { $(on_each!($store $scenarios);)+ };
    ($store:ident { $($module:ident: $($scenario:ident),+;)+ }) => {
        mod $store {
            $(mod $module {
                $(#[test]
                fn $scenario() {
                    if let Some(lab) = crate::stores::$store() {
                        crate::$module::$scenario(&lab);
                    }
                })+
            })+
        }
    };
}

on_each!([libsql, mariadb, nats, pgbouncer, postgres, redis, sqlite, valkey] {
    blocking:
        a_handler_that_blocks_the_only_worker_thread_keeps_its_lease,
        a_handler_that_blocks_a_single_threaded_runtime_keeps_its_lease,
        an_instance_whose_runtime_is_blocked_leaves_other_slots_to_the_others;
    catch_up:
        a_slot_that_was_due_while_all_were_down_is_caught_up_with_once,
        without_catch_up_a_slot_that_was_due_while_all_were_down_is_not_run,
        of_many_slots_that_were_missed_only_the_latest_is_caught_up_with,
        a_new_job_does_not_run_for_slots_before_it_was_known;
    crash:
        a_killed_runner_is_followed_by_another_within_its_lease_and_a_second,
        a_run_whose_processes_were_all_killed_is_run_once_more_after_a_restart,
        a_job_with_one_attempt_is_not_started_again_when_its_runner_is_killed,
        an_attempt_that_dies_each_time_is_started_as_often_as_max_attempts_says;
    deploy:
        a_rolling_deploy_loses_no_slot_and_runs_none_twice,
        two_versions_with_different_intervals_run_the_slots_of_both_and_shared_ones_once,
        an_instance_that_does_not_know_a_job_leaves_its_runs_alone;
    failure:
        a_handler_that_panics_is_recorded_and_the_next_slot_runs,
        a_failed_attempt_is_started_again_on_another_instance,
        a_job_that_always_fails_is_started_as_often_as_max_attempts_says,
        a_run_that_takes_too_long_is_cancelled_and_recorded_as_timed_out;
    freeze:
        a_runner_that_was_frozen_past_its_lease_is_cancelled_when_it_wakes,
        what_a_frozen_runner_still_ends_when_it_wakes_is_refused,
        slots_that_passed_while_a_process_was_frozen_are_run_by_the_others;
    once:
        a_job_that_runs_once_runs_once_in_three_processes_and_not_again_after_a_restart;
    overlap:
        a_job_longer_than_its_interval_never_runs_twice_at_once_and_its_skips_are_recorded,
        a_job_that_may_overlap_runs_each_slot_once_and_beside_others;
    pause:
        a_pause_from_one_instance_stops_the_job_on_all_until_it_is_resumed;
    stop:
        a_handler_that_hears_of_the_stop_is_handed_over_at_once,
        a_handler_that_does_not_hear_of_the_stop_is_dropped_after_its_grace_and_then_handed_over,
        a_job_with_one_attempt_is_let_end_by_a_stop_and_not_started_again,
        a_run_that_is_handed_over_by_the_last_process_is_started_by_the_next_one,
        a_handler_that_blocks_its_thread_through_a_stop_is_not_handed_over_and_the_stop_says_so;
    ticks:
        three_processes_run_each_of_thirty_slots_once,
        a_cron_line_with_seconds_and_a_zone_runs_on_all_processes_as_on_one;
});

/// Where a handler can finish its run in a transaction of its own.
mod transactions {
    on_each!([mariadb, pgbouncer, postgres, sqlite] {
        effects:
            each_slot_has_one_effect_and_is_done_with_it,
            a_process_killed_after_its_writes_has_written_nothing,
            a_process_killed_between_mark_and_commit_has_written_nothing,
            a_process_killed_right_after_the_commit_is_done_and_nobody_repeats_it,
            a_process_frozen_before_it_writes_can_write_nothing_when_it_wakes_after_a_takeover,
            a_process_frozen_with_its_transaction_open_commits_when_it_wakes_since_nobody_could_take_it_over,
            a_commit_that_stalls_for_longer_than_the_lease_is_still_the_only_one,
            a_handler_that_forgets_to_commit_has_failed_and_its_retry_writes;
    });
}

/// Where that goes over a connection.
mod connections {
    on_each!([mariadb, pgbouncer, postgres] {
        effects:
            a_commit_that_does_not_get_through_has_written_nothing_and_its_retry_writes,
            a_commit_whose_answer_is_lost_is_done_and_nobody_repeats_it;
    });
}

// A test that harms a server has one of its own.
on_each!([own_libsql, own_mariadb, own_nats, own_postgres] {
    server:
        a_server_that_is_killed_and_restarted_loses_no_slot_and_runs_none_twice,
        a_runner_whose_server_is_silent_is_cancelled_before_another_can_start,
        a_server_that_is_restarted_costs_no_run_its_lease;
});

/// What a busy machine may add to a time that is promised.
const LOAD: Duration = Duration::from_millis(1500);

/// Asserts that `later` is at most `limit` after `earlier`, or a little more on a busy machine.
#[track_caller]
fn within(limit: Duration, earlier_ns: u64, later_ns: u64) {
    let took = Duration::from_nanos(later_ns.saturating_sub(earlier_ns));
    assert!(took <= limit + LOAD, "it took {took:?} instead of {limit:?} at most");
}

/// A job every second with this work and these other lines.
fn every_second(name: &str, work: &str, more: &str) -> String {
    format!("[[job]]\nname = \"{name}\"\nevery = \"1s\"\nwork = \"{work}\"\n{more}\n")
}

/// A job whose next slot is some seconds away and the one after that an hour later; and that slot.
fn hourly(name: &str, in_ms: i64, work: &str, more: &str) -> (String, i64) {
    const HOUR: i64 = 3_600_000;
    let slot = tests::wall_ms() + in_ms;
    let offset = slot.rem_euclid(HOUR);
    let job =
        format!("[[job]]\nname = \"{name}\"\nevery = \"1h\"\noffset = \"{offset}ms\"\nwork = \"{work}\"\n{more}\n");
    (job, slot)
}

/// Asserts that the processes were ready before the first slot that a test is about.
#[track_caller]
fn in_good_time(slot: i64) {
    assert!(tests::wall_ms() < slot, "this machine is too busy for this test: its processes came up after the slot");
}
