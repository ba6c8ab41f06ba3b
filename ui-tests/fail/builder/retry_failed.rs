use anarchon::{ClaimOnlyMemoryBackend, Scheduler};

async fn notify() {}

fn add(scheduler: &Scheduler<ClaimOnlyMemoryBackend>) {
    let _ = scheduler.every("notify", "1h", notify).retry_failed("10s");
}

fn main() {}
