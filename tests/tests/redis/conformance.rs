//! The conformance suite on each kind and version of server, and random plays beside the memory store.

use std::time::Duration;

use anarchon::backend::redis::{Idmp, Script, StreamId};
use anarchon::testing::conformance::Fixture;
use anarchon::testing::differential::{self, HandClocked};
use anarchon::{AnyBackend, AnyClaimBackend, ClaimOnlyMemoryBackend, MemoryBackend, RedisBackend, ValkeyBackend};
use tests::servers::{Redis, RedisVersion};

use crate::block_on;

/// A database of a server. Where the server is not there, and that has been told, the memory store is in its place: a test
/// of the suite cannot say that it was skipped.
enum Database {
    At(String),
    Skipped(MemoryBackend),
}

impl Database {
    fn of(version: RedisVersion) -> Self {
        Redis::shared(version).map_or_else(|| Self::Skipped(MemoryBackend::new()), |server| Self::At(server.database()))
    }
}

impl Fixture for Database {
    type Backend = AnyBackend;

    async fn backend(&self) -> AnyBackend {
        match self {
            Self::At(url) => AnyBackend::connect(url).expect("a driver"),
            Self::Skipped(memory) => AnyBackend::new(memory.clone()),
        }
    }
}

/// The same for strategies without leases.
enum Claims<F> {
    At(String, F),
    Skipped(ClaimOnlyMemoryBackend),
}

impl<F: Fn(&str) -> AnyClaimBackend> Claims<F> {
    fn of(version: RedisVersion, backend: F) -> Self {
        match Redis::shared(version) {
            Some(server) => Self::At(server.database(), backend),
            None => Self::Skipped(ClaimOnlyMemoryBackend::new()),
        }
    }
}

impl<F: Fn(&str) -> AnyClaimBackend + Send + Sync + 'static> Fixture for Claims<F> {
    type Backend = AnyClaimBackend;

    async fn backend(&self) -> AnyClaimBackend {
        match self {
            Self::At(url, backend) => backend(url),
            Self::Skipped(memory) => AnyClaimBackend::new(memory.clone()),
        }
    }
}

/// A call of every kind, thousands of times, on the store at `url` and by the rules in Rust.
async fn play<B: HandClocked>(first_seed: u64, store: impl Fn(String) -> B) {
    differential::play(first_seed, 6_000, async |seed| {
        let store = store(format!("play-{seed}:"));
        store.connect().await.expect("a connection");
        store
    })
    .await;
}

macro_rules! on_each {
    ($($server:ident, $by_age:ident: $backend:ident on $version:ident, $plays:ident from $seed:literal;)+) => {$(
        anarchon::lease_conformance!($server, || async { Database::of(RedisVersion::$version) });
        anarchon::history_by_age_conformance!($by_age, || async { Database::of(RedisVersion::$version) });

        #[test]
        fn $plays() {
            let Some(server) = Redis::shared(RedisVersion::$version) else { return };
            let url = server.database();
            block_on(play($seed, |prefix| $backend::new(&url).prefix(prefix)));
        }
    )+};
}

on_each! {
    redis7, redis7_by_age: RedisBackend on Redis7, redis7_answers_as_the_rules_do from 1;
    redis8, redis8_by_age: RedisBackend on Redis8, redis8_answers_as_the_rules_do from 101;
    valkey8, valkey8_by_age: ValkeyBackend on Valkey8, valkey8_answers_as_the_rules_do from 201;
    valkey9, valkey9_by_age: ValkeyBackend on Valkey9, valkey9_answers_as_the_rules_do from 301;
}

macro_rules! claims_on_each {
    ($($name:ident: $backend:ident by $strategy:expr, on $version:ident;)+) => {$(
        anarchon::claim_conformance!($name, || async {
            Claims::of(RedisVersion::$version, |url: &str| AnyClaimBackend::new($backend::new(url).strategy($strategy)))
        });
    )+};
}

/// Short enough for a rule to see its end.
const WINDOW: Duration = Duration::from_secs(5);

claims_on_each! {
    redis7_stream_id: RedisBackend by StreamId, on Redis7;
    redis8_stream_id: RedisBackend by StreamId, on Redis8;
    valkey8_stream_id: ValkeyBackend by StreamId, on Valkey8;
    valkey9_stream_id: ValkeyBackend by StreamId, on Valkey9;
    redis7_script: RedisBackend by Script::new(WINDOW), on Redis7;
    redis8_script: RedisBackend by Script::new(WINDOW), on Redis8;
    valkey8_script: ValkeyBackend by Script::new(WINDOW), on Valkey8;
    valkey9_script: ValkeyBackend by Script::new(WINDOW), on Valkey9;
    redis8_idmp: RedisBackend by Idmp::new(WINDOW), on Redis8;
}
