anarchon::main!(anarchon::MemoryBackend, lease: "15s");
