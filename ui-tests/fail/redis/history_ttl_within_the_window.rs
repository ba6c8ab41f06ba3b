anarchon::main! {
    backend: anarchon::RedisBackend<anarchon::backend::redis::Script> = anarchon::RedisBackend::default()
        .strategy(anarchon::backend::redis::Script::new(std::time::Duration::from_secs(600))),
    history_ttl: "10m",
}
