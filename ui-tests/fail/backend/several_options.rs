anarchon::main!(anarchon::ClaimOnlyMemoryBackend);

#[anarchon::job(every = "1h", max_attempts = 2, timeout = "5m", catch_up = "10m")]
async fn notify() {}
