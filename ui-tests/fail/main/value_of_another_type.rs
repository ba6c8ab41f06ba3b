anarchon::main! {
    backend: anarchon::MemoryBackend = anarchon::ClaimOnlyMemoryBackend::new(),
}
