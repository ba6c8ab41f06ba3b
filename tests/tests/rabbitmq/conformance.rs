//! The conformance suite on each version of the broker.

use anarchon::testing::conformance::Fixture;
use anarchon::{AnyClaimBackend, ClaimOnlyMemoryBackend, RabbitMqBackend};
use tests::servers::{RabbitMq, RabbitMqVersion};

/// A prefix on a broker. Where the broker is not there, and that has been told, the memory store is in its place: a test
/// of the suite cannot say that it was skipped.
enum Claims {
    At(String, String),
    Skipped(ClaimOnlyMemoryBackend),
}

impl Claims {
    fn of(version: RabbitMqVersion) -> Self {
        match RabbitMq::shared(version) {
            Some(server) => Self::At(server.url(), RabbitMq::prefix()),
            None => Self::Skipped(ClaimOnlyMemoryBackend::new()),
        }
    }
}

impl Fixture for Claims {
    type Backend = AnyClaimBackend;

    async fn backend(&self) -> AnyClaimBackend {
        match self {
            Self::At(url, prefix) => AnyClaimBackend::new(RabbitMqBackend::new(url).prefix(prefix)),
            Self::Skipped(memory) => AnyClaimBackend::new(memory.clone()),
        }
    }
}

anarchon::claim_conformance!(rabbitmq3, || async { Claims::of(RabbitMqVersion::V3) });
anarchon::claim_conformance!(rabbitmq4, || async { Claims::of(RabbitMqVersion::V4) });
