//! Metrics: what happens, as counters, histograms and gauges of the `metrics` crate.
//!
//! All are fed from here, by events and the counts of `health()`. Each is looked up where it is recorded: a program may
//! install its recorder after the scheduler has started.

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

use super::vitals::Counts;
use crate::error::{BackendError, BackendErrorKind};
use crate::event::Event;
use crate::run::{Reason, RunKey};
use crate::slot::JobName;

const CLAIMS: &str = "anarchon_claims_total";
const LATENESS: &str = "anarchon_lateness_seconds";
const RUN_DURATION: &str = "anarchon_run_duration_seconds";
const RUNS_UNDER_WAY: &str = "anarchon_runs_under_way";
const TAKEOVERS: &str = "anarchon_takeovers_total";
const RETRIES: &str = "anarchon_retries_total";
const LEASE_LOSSES: &str = "anarchon_lease_losses_total";
const MISSED_SLOTS: &str = "anarchon_missed_slots_total";
const STORE_ERRORS: &str = "anarchon_store_errors_total";
const CLOCK_OFFSET: &str = "anarchon_clock_offset_seconds";

/// Tells the recorder, if there is one yet, what each metric is.
pub(super) fn describe() {
    describe_counter!(CLAIMS, Unit::Count, "claims of this instance that are decided, by how");
    describe_histogram!(LATENESS, Unit::Seconds, "from a slot to its first claim's being won, by the store's clock");
    describe_histogram!(RUN_DURATION, Unit::Seconds, "what handlers took, by how their attempts ended");
    describe_gauge!(RUNS_UNDER_WAY, Unit::Count, "handlers under way on this instance");
    describe_counter!(TAKEOVERS, Unit::Count, "runs of others that this instance took over, their leases being over");
    describe_counter!(RETRIES, Unit::Count, "attempts that this instance started since the ones before failed");
    describe_counter!(LEASE_LOSSES, Unit::Count, "leases that this instance lost, or could not renew in time");
    describe_counter!(MISSED_SLOTS, Unit::Count, "slots that this instance did not run, and that are too late now");
    describe_counter!(STORE_ERRORS, Unit::Count, "requests that the store failed, by what is known about their effect");
    describe_gauge!(CLOCK_OFFSET, Unit::Seconds, "the store's clock minus this machine's");
}

pub(super) fn event(event: &Event) {
    match event {
        Event::Claimed { run, reason, late, .. } => {
            claim(&run.job, "won");
            match reason {
                Reason::Scheduled | Reason::CatchUp => {
                    histogram!(LATENESS, "job" => name(&run.job)).record(late.as_secs_f64());
                }
                Reason::Takeover => counter!(TAKEOVERS, "job" => name(&run.job)).increment(1),
                Reason::Retry => counter!(RETRIES, "job" => name(&run.job)).increment(1),
                Reason::HandOver | Reason::Manual => {}
            }
        }
        Event::LostRace { run, .. } => claim(&run.job, "lost"),
        Event::Skipped { job, reason, .. } => claim(job, reason.as_str()),
        Event::Returned { run } => claim(&run.job, "returned"),
        Event::Unclear { job, .. } => claim(job, "unclear"),
        Event::Finished { run, status, took, .. } => ended(run, status.as_str(), took.as_secs_f64()),
        Event::HandedOver { run, took, .. } => ended(run, "handed_over", took.as_secs_f64()),
        Event::LeaseLost { run, .. } => counter!(LEASE_LOSSES, "job" => name(&run.job)).increment(1),
        Event::Missed { job, .. } => counter!(MISSED_SLOTS, "job" => name(job)).increment(1),
        // The errors of a store are counted one by one, its clock is read at each turn.
        _ => {}
    }
}

fn claim(job: &JobName, outcome: &'static str) {
    counter!(CLAIMS, "job" => name(job), "outcome" => outcome).increment(1);
}

fn ended(run: &RunKey, outcome: &'static str, took: f64) {
    histogram!(RUN_DURATION, "job" => name(&run.job), "outcome" => outcome).record(took);
}

pub(super) fn store_failed(error: &BackendError) {
    let kind = match error.kind() {
        BackendErrorKind::Unknown => "unknown",
        BackendErrorKind::Busy => "busy",
        BackendErrorKind::Refused => "refused",
        BackendErrorKind::Config => "config",
    };
    counter!(STORE_ERRORS, "backend" => error.backend().to_owned(), "kind" => kind).increment(1);
}

/// At each turn, changed or not: a recorder that comes later has them within a second.
pub(super) fn counts(counts: &Counts) {
    gauge!(RUNS_UNDER_WAY).set(counts.runs as f64);
    if let Some(offset_ms) = counts.clock_offset_ms {
        gauge!(CLOCK_OFFSET).set(offset_ms as f64 / 1000.0);
    }
}

/// Shared with the job, not copied.
fn name(job: &JobName) -> metrics::SharedString {
    metrics::SharedString::from_shared(job.shared())
}
