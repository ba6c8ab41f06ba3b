anarchon::main! {
    backend: anarchon::MemoryBackend::new(),
}
