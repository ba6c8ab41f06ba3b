use anarchon::{ClaimOnlyMemoryBackend, Scheduler};

async fn notify() {}

fn add(scheduler: &Scheduler<ClaimOnlyMemoryBackend>) {
    let _ = scheduler.every("notify", "1h", notify).history_ttl("30d");
}

fn main() {}
