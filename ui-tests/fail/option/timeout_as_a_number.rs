#[anarchon::job(every = "1h", timeout = 300)]
async fn notify() {}

fn main() {}
