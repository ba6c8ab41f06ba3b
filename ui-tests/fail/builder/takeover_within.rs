use anarchon::{ClaimOnlyMemoryBackend, Scheduler};

async fn notify() {}

fn add(scheduler: &Scheduler<ClaimOnlyMemoryBackend>) {
    let _ = scheduler.cron("notify", "0 8 * * *", notify).takeover_within("1h");
}

fn main() {}
