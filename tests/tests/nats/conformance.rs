//! The conformance suite on each version of server, and random plays beside the memory store.

use std::time::Duration;

use anarchon::testing::conformance::Fixture;
use anarchon::testing::differential;
use anarchon::{AnyBackend, Backend as _, NatsBackend, NatsKvBackend};
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

/// A stream of a test's own, if there is a server.
struct Stream(Option<(String, String)>);

/// Short enough for a rule to see its end.
const WINDOW: Duration = Duration::from_secs(5);

impl Stream {
    fn of(version: NatsVersion) -> Self {
        Self(Nats::shared(version).map(|server| (server.url(), server.unused("stream"))))
    }
}

impl Fixture for Stream {
    type Backend = NatsBackend;

    fn is_there(&self) -> bool {
        self.0.is_some()
    }

    async fn backend(&self) -> NatsBackend {
        let (url, name) = self.0.as_ref().expect("a stream");
        NatsBackend::new(url).stream(name).prefix(format!("{name}.")).duplicate_window(WINDOW)
    }
}

macro_rules! on_each {
    ($($server:ident, $by_age:ident, $claims:ident: $version:ident, $plays:ident from $seed:literal;)+) => {$(
        anarchon::lease_conformance!($server, || async { Bucket::of(NatsVersion::$version) });
        anarchon::history_by_age_conformance!($by_age, || async { Bucket::of(NatsVersion::$version) });
        anarchon::claim_conformance!($claims, || async { Stream::of(NatsVersion::$version) });

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
    nats29, nats29_by_age, nats29_claims: Nats29, nats29_answers_as_the_rules_do from 1;
    nats215, nats215_by_age, nats215_claims: Nats215, nats215_answers_as_the_rules_do from 101;
}
