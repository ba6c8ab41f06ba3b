//! The conformance suite on each kind and version of server, and random plays beside the memory store.

use anarchon::testing::conformance::Fixture;
use anarchon::testing::differential::{self, HandClocked};
use anarchon::{AnyBackend, MemoryBackend, RedisBackend, ValkeyBackend};
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
