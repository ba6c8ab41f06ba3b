use anarchon::backend::redis::Idmp;
use anarchon::{Overlap, RedisBackend, Scheduler};

async fn notify() {}

fn add(scheduler: &Scheduler<RedisBackend<Idmp>>) {
    let _ = scheduler
        .every("notify", "1h", notify)
        .overlap(Overlap::Skip)
        .max_attempts(2)
        .retry_failed("10s")
        .catch_up("10m")
        .takeover_within("1h");
}

fn main() {}
