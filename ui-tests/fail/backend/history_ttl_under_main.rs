anarchon::main!(anarchon::ClaimOnlyMemoryBackend);

#[anarchon::job(every = "1h", history_ttl = "30d")]
async fn notify() {}
