use std::time::Duration;

use anarchon::RedisBackend;
use anarchon::backend::redis::Script;

anarchon::main! {
    backend: RedisBackend<Script> =
        RedisBackend::default().strategy(Script::new(Duration::from_secs(600))).prefix("billing:"),
}

mod jobs {
    #[anarchon::job(every = "1h", history_ttl = "11m")]
    async fn notify() {}

    #[anarchon::job(every = "1h", history_ttl = "10m")]
    async fn bill() {}
}
