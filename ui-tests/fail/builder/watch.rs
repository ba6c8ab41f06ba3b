use anarchon::{ClaimOnlyMemoryBackend, Scheduler};

fn main() {
    let _ = Scheduler::builder(ClaimOnlyMemoryBackend::new()).watch("2s");
}
