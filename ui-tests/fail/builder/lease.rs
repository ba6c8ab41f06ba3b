use anarchon::{ClaimOnlyMemoryBackend, Scheduler};

fn main() {
    let _ = Scheduler::builder(ClaimOnlyMemoryBackend::new()).lease("15s");
}
