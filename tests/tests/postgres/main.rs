//! The PostgreSQL store on real servers: directly and behind poolers.

#![cfg(unix)]
#![allow(clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod alone;
mod batches;
mod clients;
mod conformance;
mod connect;
mod differential;
mod locks;
mod neighbours;
mod outage;
mod place;
mod plans;
mod race;
mod tables;
mod texts;
mod wire;

use std::time::Duration;

use anarchon::run::{ClaimOutcome, Ending, Finish, RunClaim};
use anarchon::{InstanceId, JobName, Slot, Token};

fn job(name: &str) -> JobName {
    JobName::new(name).expect("a job name")
}

fn instance(id: &str) -> InstanceId {
    InstanceId::new(id).expect("an instance id")
}

/// A claim of an old slot by a new token: `slot` is in ms since the epoch.
fn claim(name: &str, slot: i64) -> RunClaim {
    let mut claim = RunClaim::new(job(name), Slot::from_ms(slot), Token::random(), instance("one"));
    claim.limit = Duration::from_secs(100_000_000_000);
    claim
}

fn claims(prefix: &str, count: usize, slot: i64) -> Vec<RunClaim> {
    (0..count).map(|n| claim(&format!("{prefix}-{n:03}"), slot)).collect()
}

/// The same claim by another.
fn rival(of: &RunClaim) -> RunClaim {
    let mut claim = of.clone();
    claim.token = Token::random();
    claim
}

fn done(claim: &RunClaim) -> Finish {
    Finish::new(claim.key(), claim.token, Ending::Done, claim.instance.clone(), 0)
}

fn won(outcome: &ClaimOutcome) -> bool {
    matches!(outcome, ClaimOutcome::Won { .. })
}
