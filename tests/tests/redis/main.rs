//! The backends on Redis and Valkey, on real servers.

#![cfg(unix)]
#![allow(clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod clients;
mod cluster;
mod commands;
mod conformance;
mod faults;
mod first;
mod open;
mod restarts;
mod sentinel;
mod stored;
mod trips;

use std::time::Duration;

use anarchon::backend::Backend as _;
use anarchon::run::{Beat, BeatOutcome, ClaimOutcome, Ending, Finish, FinishOutcome, RunClaim};
use anarchon::{BackendError, InstanceId, JobName, LeaseBackend as _, RedisBackend, Slot, Token};
use tests::backends::block_on;
use tests::servers::RedisVersion;

/// One of each kind: what the versions differ in, the conformance suite has seen.
const BOTH: [RedisVersion; 2] = [RedisVersion::Redis8, RedisVersion::Valkey9];

/// A lease that outlasts any test.
const LONG_LEASE: Duration = Duration::from_secs(600);

fn job(name: &str) -> JobName {
    JobName::new(name).expect("a name")
}

fn here() -> InstanceId {
    InstanceId::new("here").expect("an instance id")
}

async fn connected(url: &str) -> RedisBackend {
    let store = RedisBackend::new(url);
    store.connect().await.expect("a connection");
    store
}

async fn now(store: &RedisBackend) -> i64 {
    store.clock().await.expect("an answer").expect("a clock")
}

/// A claim of the slot of `ago` ms before the store's clock.
async fn claim(store: &RedisBackend, name: &str, ago: i64) -> RunClaim {
    let mut claim = RunClaim::new(job(name), Slot::from_ms(now(store).await - ago), Token::random(), here());
    claim.lease = LONG_LEASE;
    claim.limit = Duration::from_secs(3600);
    claim
}

/// Another claim of the same, by somebody else.
fn again(claim: &RunClaim) -> RunClaim {
    with(claim, |claim| claim.token = Token::random())
}

/// The claim, changed.
fn with(claim: &RunClaim, change: impl FnOnce(&mut RunClaim)) -> RunClaim {
    let mut claim = claim.clone();
    change(&mut claim);
    claim
}

async fn outcome(store: &RedisBackend, claim: &RunClaim) -> Result<ClaimOutcome, BackendError> {
    store.claim(claim).await.map(|timed| timed.value)
}

/// The fence that a claim wins.
async fn fence(store: &RedisBackend, claim: &RunClaim) -> u64 {
    match outcome(store, claim).await.expect("an answer") {
        ClaimOutcome::Won { fence: Some(fence), .. } => fence,
        other => panic!("it should have won, and got {other:?}: {claim:?}"),
    }
}

async fn beat(store: &RedisBackend, claim: &RunClaim) -> BeatOutcome {
    store.heartbeat(&Beat::new(claim.key(), claim.token, claim.lease)).await.expect("an answer").value
}

async fn finish(store: &RedisBackend, claim: &RunClaim, ending: Ending) -> FinishOutcome {
    store.finish(&Finish::new(claim.key(), claim.token, ending, here(), 0)).await.expect("an answer").value
}
