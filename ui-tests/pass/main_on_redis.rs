//! A window that is spelled out, and no job that asks for it.
#![forbid(unused)]

use std::time::Duration;

use anarchon::RedisBackend;
use anarchon::backend::redis::Script;

anarchon::main! {
    backend: RedisBackend<Script> = RedisBackend::new(leave()).strategy(Script::new(Duration::from_secs(600))),
    history_ttl: "11m",
}

/// There is no server to wait for.
fn leave() -> &'static str {
    std::process::exit(0)
}
