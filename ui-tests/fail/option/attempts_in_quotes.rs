#[anarchon::job(every = "1h", max_attempts = "3")]
async fn notify() {}

fn main() {}
