use anarchon::{MemoryBackend, Overlap, Scheduler};

async fn notify() {}

fn add(scheduler: &Scheduler<MemoryBackend>) {
    let _ = scheduler.at("notify", "2027-01-01T00:00:00", notify).overlap(Overlap::Skip);
}

fn main() {}
