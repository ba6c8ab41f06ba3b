fn main() {
    anarchon::backend!(anarchon::MemoryBackend);
}
