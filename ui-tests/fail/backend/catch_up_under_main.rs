anarchon::main!(anarchon::ClaimOnlyMemoryBackend);

#[anarchon::job(every = "1h", catch_up = "10m")]
async fn notify() {}
