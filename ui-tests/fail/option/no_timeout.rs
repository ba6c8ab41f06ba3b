#[anarchon::job(every = "1h", timeout = "0s")]
async fn notify() {}

fn main() {}
