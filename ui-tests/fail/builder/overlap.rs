use anarchon::{ClaimOnlyMemoryBackend, Overlap, Scheduler};

async fn notify() {}

fn add(scheduler: &Scheduler<ClaimOnlyMemoryBackend>) {
    let _ = scheduler.every("notify", "1h", notify).overlap(Overlap::Skip);
}

fn main() {}
