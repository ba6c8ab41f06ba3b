//! Runs, until its only job ends it.

anarchon::main!(anarchon::MemoryBackend);

#[anarchon::job(every = "100ms")]
async fn leave() {
    std::process::exit(0);
}
