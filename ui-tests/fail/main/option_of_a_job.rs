anarchon::main! {
    backend: anarchon::MemoryBackend,
    overlap: "skip",
}
