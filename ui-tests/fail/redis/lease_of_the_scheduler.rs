use anarchon::RedisBackend;
use anarchon::backend::redis::{Script, StreamId};

anarchon::main! {
    backend: RedisBackend<StreamId> = RedisBackend::default().strategy(StreamId),
    lease: "15s",
    heartbeat: "5s",
    watch: "2s",
}

fn by_the_builder() {
    let store = RedisBackend::default().strategy(Script::default());
    let _ = anarchon::Scheduler::builder(store).lease("15s");
}
