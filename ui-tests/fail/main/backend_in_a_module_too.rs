anarchon::backend!(anarchon::MemoryBackend);

mod jobs {
    anarchon::backend!(anarchon::MemoryBackend);
}

fn main() {}
