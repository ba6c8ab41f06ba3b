#[anarchon::job(every = "1h", timeout = "5m", timeout = "6m")]
async fn notify() {}

fn main() {}
