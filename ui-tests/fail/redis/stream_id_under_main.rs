use anarchon::RedisBackend;
use anarchon::backend::redis::StreamId;

anarchon::main!(RedisBackend<StreamId>);

#[anarchon::job(
    every = "1h",
    overlap = "skip",
    max_attempts = 2,
    retry_failed = "10s",
    catch_up = "10m",
    takeover_within = "1h"
)]
async fn notify() {}
