use anarchon::{MemoryBackend, Scheduler};

async fn notify(_count: u32) {}

fn add(scheduler: &Scheduler<MemoryBackend>) {
    let _ = scheduler.every("notify", "1h", notify);
}

fn main() {}
