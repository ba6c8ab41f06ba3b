use anarchon::{MemoryBackend, Scheduler};

async fn notify() {}

fn add(scheduler: &Scheduler<MemoryBackend>) {
    let _ = scheduler.every("notify", "1h", notify).timezone("Europe/Paris");
}

fn main() {}
