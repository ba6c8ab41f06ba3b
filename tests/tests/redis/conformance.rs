//! The conformance suite on each kind and version of server, and random plays beside the memory store.

use anarchon::testing::conformance::{Fixture, run};
use anarchon::testing::differential;
use anarchon::{Backend as _, RedisBackend, ValkeyBackend};
use tests::servers::{Redis, RedisVersion};

/// A database of a server.
struct Database(String);

impl Fixture for Database {
    type Backend = RedisBackend;

    async fn backend(&self) -> RedisBackend {
        RedisBackend::new(&self.0)
    }
}

struct ValkeyDatabase(String);

impl Fixture for ValkeyDatabase {
    type Backend = ValkeyBackend;

    async fn backend(&self) -> ValkeyBackend {
        ValkeyBackend::new(&self.0)
    }
}

fn database(version: RedisVersion) -> String {
    Redis::shared(version).map(Redis::database).expect("the server is there")
}

macro_rules! on_each {
    ($($server:ident, $by_age:ident: $database:ident on $version:ident, $plays:ident from $seed:literal;)+) => {$(
        anarchon::lease_conformance!($server, || async { $database(database(RedisVersion::$version)) });
        anarchon::history_by_age_conformance!($by_age, || async { $database(database(RedisVersion::$version)) });

        #[test]
        fn $plays() {
            run(async || $database(database(RedisVersion::$version)), async |fixture: &$database| {
                differential::play($seed, 6_000, async |seed| {
                    let store = fixture.backend().await.prefix(format!("play-{seed}:"));
                    store.connect().await.expect("a connection");
                    store
                })
                .await;
            });
        }
    )+};
}

on_each! {
    redis7, redis7_by_age: Database on Redis7, redis7_answers_as_the_rules_do from 1;
    redis8, redis8_by_age: Database on Redis8, redis8_answers_as_the_rules_do from 101;
    valkey8, valkey8_by_age: ValkeyDatabase on Valkey8, valkey8_answers_as_the_rules_do from 201;
    valkey9, valkey9_by_age: ValkeyDatabase on Valkey9, valkey9_answers_as_the_rules_do from 301;
}
