struct Pool;

anarchon::main! {
    backend: anarchon::MemoryBackend,
    state: Pool,
}
