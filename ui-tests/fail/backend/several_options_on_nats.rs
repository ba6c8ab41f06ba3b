anarchon::main!(anarchon::NatsBackend);

#[anarchon::job(every = "1h", overlap = "skip", catch_up = "10m", history_ttl = "30d", max_late = "30s")]
async fn notify() {}
