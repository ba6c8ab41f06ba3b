mod jobs {
    anarchon::backend!(anarchon::MemoryBackend);
}

fn main() {}
