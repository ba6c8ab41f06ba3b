//! What strategies without leases can honour, and what only the start can tell: nothing answers there.

use std::time::Duration;

use anarchon::backend::redis::{Script, StreamId};
use anarchon::{RedisBackend, Scheduler, ValkeyBackend};

anarchon::backend!(RedisBackend<Script>);

#[anarchon::job(every = "1h", jitter = "2s", max_late = "1m", timeout = "5m", history_size = 10, history_ttl = "5m")]
async fn notify() {}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let window = Duration::from_secs(600);
    let stream_id = Scheduler::builder(ValkeyBackend::new("127.0.0.1:1").strategy(StreamId)).registered();
    let refused = stream_id.start().await.unwrap_err().to_string();
    assert!(refused.contains("valkey:stream-id") && !refused.contains("history_ttl"), "{refused}");
    let script = Scheduler::builder(RedisBackend::new("127.0.0.1:1").strategy(Script::new(window))).registered();
    let refused = script.start().await.unwrap_err().to_string();
    for part in ["`notify`", "`history_ttl` is 5m", "`redis:script`", "10m", file!()] {
        assert!(refused.contains(part), "{part} is not in: {refused}");
    }
}
