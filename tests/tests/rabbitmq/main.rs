//! The backend on RabbitMQ, on real brokers.

#![cfg(unix)]
#![allow(clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod claims;
mod cluster;
mod conformance;
mod faults;
mod history;
mod log;
mod messages;
mod options;
mod race;

use std::time::Duration;

use anarchon::run::{SlotClaim, SlotOutcome, Timed};
use anarchon::{
    Backend as _, BackendError, BackendErrorKind, ClaimBackend as _, Clock as _, RabbitMqBackend, Slot, SystemClock,
    Token,
};
use tests::backends::{block_on, instance, job};
use tests::servers::RabbitMq;

/// A backend whose queues nobody else has.
fn at(server: &RabbitMq) -> RabbitMqBackend {
    RabbitMqBackend::new(server.url()).prefix(RabbitMq::prefix())
}

async fn connected(backend: RabbitMqBackend) -> RabbitMqBackend {
    backend.connect().await.expect("a connection");
    backend
}

/// A claim of the slot of `ago` ms ago.
fn claim(name: &str, ago: i64) -> SlotClaim {
    let slot = Slot::from_ms(SystemClock.wall_ms() - ago);
    let mut claim = SlotClaim::new(job(name), slot, Token::random(), instance("here"));
    claim.limit = Duration::from_secs(3600);
    claim
}

/// Another claim of the same, by somebody else.
fn again(claim: &SlotClaim) -> SlotClaim {
    let mut again = claim.clone();
    again.token = Token::random();
    again
}

async fn outcome(store: &RabbitMqBackend, claim: &SlotClaim) -> Result<SlotOutcome, BackendError> {
    store.claim(claim).await.map(|timed| timed.value)
}

/// What became of a claim of many, if need be by sending it again.
async fn settled(
    store: &RabbitMqBackend,
    claim: &SlotClaim,
    answer: Result<Timed<SlotOutcome>, BackendError>,
) -> SlotOutcome {
    match answer {
        Ok(answer) => answer.value,
        Err(_) => persistently(store, claim).await,
    }
}

/// The answer to a claim that is sent again, with its token, until there is one. Not `answer`, whose future cannot be sent to
/// another thread.
async fn persistently(store: &RabbitMqBackend, claim: &SlotClaim) -> SlotOutcome {
    let since = std::time::Instant::now();
    loop {
        match outcome(store, claim).await {
            Ok(outcome) => return outcome,
            Err(error) => {
                let again = matches!(error.kind(), BackendErrorKind::Busy | BackendErrorKind::Unknown);
                assert!(again && since.elapsed() < tests::LONG * 4, "{error}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}

/// Waits for an event that only asking tells of.
async fn until(event: &str, is: impl AsyncFn() -> bool) {
    let since = std::time::Instant::now();
    while !is().await {
        assert!(since.elapsed() < tests::LONG, "not within {:?}: {event}", tests::LONG);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
