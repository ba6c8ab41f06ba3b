use anarchon::{MemoryBackend, Scheduler};

fn notify() {}

fn add(scheduler: &Scheduler<MemoryBackend>) {
    let _ = scheduler.every("notify", "1h", notify);
}

fn main() {}
