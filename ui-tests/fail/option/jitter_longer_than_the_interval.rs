#[anarchon::job(every = "10s", jitter = "10s")]
async fn notify() {}

fn main() {}
