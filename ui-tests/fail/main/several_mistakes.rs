anarchon::main! {
    backend: anarchon::MemoryBackend,
    lease: "15 s",
    timezone: "Europe/Pari",
    history_size: 0,
    colour: "red",
}
