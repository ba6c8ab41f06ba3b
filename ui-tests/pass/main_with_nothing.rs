//! The default store is a file; here a driver of that name keeps everything in memory.

use anarchon::MemoryBackend;
use anarchon::catalogue::{self, DRIVERS, Driver};

#[catalogue::linkme::distributed_slice(DRIVERS)]
#[linkme(crate = anarchon::catalogue::linkme)]
static MEMORY: Driver =
    Driver { schemes: &["sqlite"], feature: None, open: |_| Ok(catalogue::leases(MemoryBackend::new())) };

anarchon::main!();

#[anarchon::job(every = "100ms", overlap = "skip")]
async fn leave() {
    std::process::exit(0);
}
