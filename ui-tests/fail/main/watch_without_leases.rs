anarchon::main! {
    backend: anarchon::ClaimOnlyMemoryBackend,
    watch: "2s",
}
