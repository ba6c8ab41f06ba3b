anarchon::main! {
    backend: anarchon::MemoryBackend,
    stop_grce: "5s",
}
