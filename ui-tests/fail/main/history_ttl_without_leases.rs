anarchon::main! {
    backend: anarchon::ClaimOnlyMemoryBackend,
    history_ttl: "30d",
}
