use anarchon::{ClaimOnlyMemoryBackend, Scheduler};

fn main() {
    let _ = Scheduler::builder(ClaimOnlyMemoryBackend::new()).heartbeat("5s");
}
