//! The backends on NATS, on real servers.

#![cfg(unix)]
#![allow(clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod claims;
mod clients;
mod cluster;
mod conformance;
mod faults;
mod messages;
mod race;
mod stored;

use std::time::Duration;

use anarchon::backend::Backend;
use anarchon::{NatsBackend, NatsKvBackend};
use async_nats::{Client, HeaderMap};
use tests::backends::block_on;
use tests::servers::{Nats, NatsVersion};

/// A server of a test's own, of each version that is there.
fn own_servers() -> impl Iterator<Item = Nats> {
    NatsVersion::ALL.into_iter().filter_map(Nats::own)
}

async fn connected(url: &str) -> NatsKvBackend {
    let store = NatsKvBackend::new(url);
    store.connect().await.expect("a connection");
    store
}

async fn claims_at(url: &str) -> NatsBackend {
    let store = NatsBackend::new(url);
    store.connect().await.expect("a connection");
    store
}

async fn now(store: &impl Backend) -> i64 {
    store.clock().await.expect("an answer").expect("a clock")
}

/// Waits until the server's clock shows this time.
async fn clock_shows(store: &impl Backend, ms: i64) {
    while let Ok(left @ 1..) = u64::try_from(ms - now(store).await) {
        tokio::time::sleep(Duration::from_millis(left)).await;
    }
}

/// A connection of the application's.
async fn client(server: &Nats) -> Client {
    let patience = Some(Duration::from_secs(10));
    async_nats::ConnectOptions::new().request_timeout(patience).connect(server.url()).await.expect("a connection")
}

/// Asks JetStream, as people do with their tools.
async fn ask(client: &Client, verb: &str, request: &str) -> String {
    let answer = client.request(format!("$JS.API.{verb}"), request.to_owned().into()).await.expect("an answer");
    String::from_utf8(answer.payload.to_vec()).expect("a text")
}

/// Publishes as a packet that comes late does: `expected` is the number that its subject's latest message had.
async fn publish(client: &Client, subject: &str, headers: &[(&str, &str)], payload: &str) -> String {
    let mut map = HeaderMap::new();
    headers.iter().for_each(|(name, value)| map.insert(*name, *value));
    let answer = client.request_with_headers(subject.to_owned(), map, payload.to_owned().into()).await;
    String::from_utf8(answer.expect("an answer").payload.to_vec()).expect("a text")
}

/// The number of a subject's latest message.
async fn number(client: &Client, stream: &str, subject: &str) -> u64 {
    let answer = ask(client, &format!("STREAM.MSG.GET.{stream}"), &format!("{{\"last_by_subj\":\"{subject}\"}}")).await;
    let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
    answer["message"]["seq"].as_u64().unwrap_or_else(|| panic!("no number: {answer}"))
}
