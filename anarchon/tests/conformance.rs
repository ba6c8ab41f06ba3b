//! The conformance suite on the memory stores.
#![cfg(feature = "testing")]

use std::time::Duration;

use anarchon::testing::conformance::{Shared, claim_only, run};
use anarchon::{ClaimOnlyMemoryBackend, MemoryBackend};

anarchon::lease_conformance!(memory, || async { Shared(MemoryBackend::new()) });
anarchon::history_by_age_conformance!(memory_by_age, || async { Shared(MemoryBackend::new()) });
anarchon::claim_conformance!(memory_claim_only, || async { Shared(ClaimOnlyMemoryBackend::new()) });

#[test]
fn a_short_window_is_kept_to_its_end() {
    let store = || async { Shared(ClaimOnlyMemoryBackend::new().with_window(Duration::from_millis(700))) };
    run(store, claim_only::a_slot_is_remembered_as_long_as_declared);
    run(store, claim_only::a_slot_beyond_the_stores_memory_is_late);
}
