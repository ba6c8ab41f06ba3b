#[anarchon::job(every = "1h", max_attempts = -1)]
async fn notify() {}

fn main() {}
