#[anarchon::job(every = "1h", max_attempts = 0)]
async fn notify() {}

fn main() {}
