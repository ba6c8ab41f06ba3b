anarchon::backend!(anarchon::MemoryBackend);
anarchon::main!(anarchon::MemoryBackend);
