anarchon::backend!(anarchon::ClaimOnlyMemoryBackend);

#[anarchon::job(every = "1h", takeover_within = "1h")]
async fn notify() {}

fn main() {}
