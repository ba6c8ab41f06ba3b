anarchon::main! {
    backend: anarchon::ClaimOnlyMemoryBackend,
    lease: "15s",
}
