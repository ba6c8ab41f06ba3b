#[anarchon::job(every = "1h", retry_failed = true)]
async fn notify() {}

fn main() {}
