anarchon::main!(anarchon::ClaimOnlyMemoryBackend);

#[anarchon::job(every = "1h", overlap = "skip")]
async fn notify() {}
