anarchon::main!(anarchon::ClaimOnlyMemoryBackend);

#[anarchon::job(every = "1h", max_attempts = 2)]
async fn notify() {}
