#[anarchon::job(every = "1h", lease = "15s")]
async fn notify() {}

fn main() {}
