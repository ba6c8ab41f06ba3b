mod program {
    anarchon::main!(anarchon::MemoryBackend);
}

fn main() {}
