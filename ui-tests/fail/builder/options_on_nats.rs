use anarchon::{NatsBackend, Scheduler};

async fn notify() {}

fn add(scheduler: &Scheduler<NatsBackend>) {
    let _ = scheduler.every("notify", "1h", notify).max_attempts(2);
    let _ = scheduler.every("notify", "1h", notify).history_ttl("30d");
}

fn main() {}
