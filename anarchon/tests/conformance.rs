//! The conformance suite on the memory stores.
#![cfg(feature = "testing")]

use anarchon::MemoryBackend;
use anarchon::testing::conformance::Shared;

anarchon::lease_conformance!(memory, || async { Shared(MemoryBackend::new()) });
