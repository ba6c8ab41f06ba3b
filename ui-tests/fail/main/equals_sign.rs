anarchon::main! {
    backend: anarchon::MemoryBackend,
    lease = "15s",
}
