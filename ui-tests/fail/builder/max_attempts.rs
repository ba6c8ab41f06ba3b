use anarchon::{ClaimOnlyMemoryBackend, Scheduler};

async fn notify() {}

fn add(scheduler: &Scheduler<ClaimOnlyMemoryBackend>) {
    let _ = scheduler.every("notify", "1h", notify).max_attempts(2);
}

fn main() {}
