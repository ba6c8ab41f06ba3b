//! The conformance suite on each version of server, and random plays beside the memory store.

use anarchon::testing::conformance::Fixture;
use anarchon::testing::differential;
use anarchon::{AnyBackend, Backend as _, NatsKvBackend};
use tests::servers::{Nats, NatsVersion};

use crate::block_on;

/// A bucket of a test's own, if there is a server.
struct Bucket(Option<String>);

impl Bucket {
    fn of(version: NatsVersion) -> Self {
        Self(Nats::shared(version).map(Nats::bucket))
    }
}

impl Fixture for Bucket {
    type Backend = AnyBackend;

    fn is_there(&self) -> bool {
        self.0.is_some()
    }

    async fn backend(&self) -> AnyBackend {
        AnyBackend::connect(self.0.as_deref().expect("a bucket")).expect("a driver")
    }
}

macro_rules! on_each {
    ($($server:ident, $by_age:ident: $version:ident, $plays:ident from $seed:literal;)+) => {$(
        anarchon::lease_conformance!($server, || async { Bucket::of(NatsVersion::$version) });
        anarchon::history_by_age_conformance!($by_age, || async { Bucket::of(NatsVersion::$version) });

        #[test]
        fn $plays() {
            let Some(server) = Nats::shared(NatsVersion::$version) else { return };
            block_on(differential::play($seed, 6_000, async |_| {
                let store = NatsKvBackend::new(server.url()).bucket(server.unused("play"));
                store.connect().await.expect("a connection");
                store
            }));
        }
    )+};
}

on_each! {
    nats29, nats29_by_age: Nats29, nats29_answers_as_the_rules_do from 1;
    nats215, nats215_by_age: Nats215, nats215_answers_as_the_rules_do from 101;
}
