use anarchon::{MemoryBackend, Scheduler};

async fn notify() {}

fn add(scheduler: &Scheduler<MemoryBackend>) {
    let _ = scheduler.cron("notify", "0 8 * * *", notify).offset("5m");
}

fn main() {}
