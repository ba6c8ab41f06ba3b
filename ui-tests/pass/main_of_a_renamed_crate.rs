extern crate anarchon as scheduling;

scheduling::main! {
    crate: "scheduling",
    backend: scheduling::MemoryBackend,
    lease: "10s",
}

#[scheduling::job(every = "100ms", overlap = "skip", crate = "scheduling")]
async fn leave() {
    std::process::exit(0);
}
