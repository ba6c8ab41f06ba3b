anarchon::main! {
    backend: anarchon::MemoryBackend,
    timezone: "Europe/Pari",
}
