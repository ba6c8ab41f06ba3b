//! What goes over the wire: one round trip for each call, however many things it is about.

use std::net::SocketAddr;
use std::time::Duration;

use anarchon::run::{Beat, BeatOutcome, RunKey};
use anarchon::{Backend as _, LeaseBackend as _, PostgresBackend};
use tests::Proxy;
use tests::servers::Postgres;

use crate::place::{POOLED_1_18, Place, V18};
use crate::{claim, claims, done, rival, won};

/// Where the server of a URL listens.
fn address(url: &str) -> SocketAddr {
    let host = url.split('@').nth(1).and_then(|rest| rest.split('/').next()).expect("a host in the URL");
    host.parse().expect("an address")
}

async fn each_call_is_one_round_trip(place: Place) {
    let Some(database) = place.database() else { return };
    let proxy = Proxy::before(address(database.url()));
    let backend = PostgresBackend::new(database.url_through(proxy.address()));
    backend.connect().await.expect("a connection");
    // All that is done once is done.
    backend.claim(&claim("first", 1)).await.expect("an answer");

    let (begun, connections) = (proxy.round_trips(), proxy.accepted());
    let trips = |expected: u64, what: &str| assert_eq!(proxy.round_trips() - begun, expected, "{what}");
    let one = claim("one", 1);
    assert!(won(&backend.claim(&one).await.expect("an answer").value));
    trips(1, "a claim that is won");
    assert!(!won(&backend.claim(&rival(&one)).await.expect("an answer").value));
    trips(2, "a claim that is lost");
    let beat = Beat::new(one.key(), one.token, Duration::from_secs(15));
    assert_eq!(backend.heartbeat(&beat).await.expect("an answer").value, BeatOutcome::Alive);
    trips(3, "a heartbeat");
    backend.finish(&done(&one)).await.expect("an answer");
    trips(4, "a finish");
    let many = claims("many", 64, 1);
    for answer in backend.claim_many(&many).await {
        assert!(won(&answer.expect("an answer").value));
    }
    trips(5, "64 claims");
    let beats: Vec<Beat> = many
        .iter()
        .map(|c| Beat::new(RunKey::scheduled(c.job.clone(), c.slot), c.token, Duration::from_secs(15)))
        .collect();
    for answer in backend.heartbeat_many(&beats).await {
        assert_eq!(answer.expect("an answer").value, BeatOutcome::Alive);
    }
    trips(6, "64 heartbeats");
    let ends: Vec<_> = many.iter().map(done).collect();
    for answer in backend.finish_many(&ends).await {
        answer.expect("an answer");
    }
    trips(7, "64 finishes");
    assert_eq!(proxy.accepted(), connections, "one connection is enough for one call at a time");
}

#[tokio::test]
async fn each_call_is_one_round_trip_to_the_server() {
    each_call_is_one_round_trip(V18).await;
}

#[tokio::test]
async fn each_call_is_one_round_trip_to_a_pooler() {
    each_call_is_one_round_trip(POOLED_1_18).await;
}

#[tokio::test]
async fn a_call_whose_answer_was_lost_is_answered_the_same_when_it_is_repeated() {
    let Some(server) = Postgres::shared(tests::servers::PostgresVersion::V15) else { return };
    let database = server.database();
    let proxy = Proxy::before(address(database.url()));
    let backend = PostgresBackend::new(database.url_through(proxy.address()));
    backend.connect().await.expect("a connection");
    for n in 0..3_i64 {
        let asked = claim("a", n);
        // The server has answered; the client is never told.
        proxy.cut_after(1);
        let error = backend.claim(&asked).await.expect_err("no answer came");
        assert_eq!(error.kind(), anarchon::BackendErrorKind::Unknown, "{error}");
        assert!(won(&backend.claim(&asked).await.expect("an answer").value), "the same token wins again");
        proxy.cut_after(1);
        backend.finish(&done(&asked)).await.expect_err("no answer came");
        backend.finish(&done(&asked)).await.expect("the same end is recorded once");
        // A call that was dropped in the middle leaves nothing that the next one could read.
        let asked = claim("b", n);
        proxy.swallow_reply(1);
        let silence = tokio::time::timeout(Duration::from_millis(200), backend.claim(&asked)).await;
        assert!(silence.is_err(), "there is an answer");
        assert!(won(&backend.claim(&asked).await.expect("an answer").value));
        backend.finish(&done(&asked)).await.expect("an answer");
    }
    assert_eq!(backend.history(&crate::job("a"), 100).await.expect("a history").len(), 3);
}
