anarchon::backend!(anarchon::ClaimOnlyMemoryBackend);

#[anarchon::job(every = "1h", offset = "5m", jitter = "2s", max_late = "1m", timeout = "5m", history_size = 10)]
async fn notify() {}

fn main() {}
