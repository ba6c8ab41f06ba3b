anarchon::main! {
    backend: anarchon::ClaimOnlyMemoryBackend,
    heartbeat: "5s",
}
