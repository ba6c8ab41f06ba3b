anarchon::backend!(anarchon::ClaimOnlyMemoryBackend);

#[anarchon::job(every = "1h", retry_failed = "10s")]
async fn notify() {}

fn main() {}
