#[anarchon::job(every = "1h" timeout = "5m")]
async fn notify() {}

fn main() {}
