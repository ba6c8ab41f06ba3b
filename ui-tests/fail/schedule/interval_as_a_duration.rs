#[anarchon::job(every = std::time::Duration::from_secs(10))]
async fn notify() {}

fn main() {}
