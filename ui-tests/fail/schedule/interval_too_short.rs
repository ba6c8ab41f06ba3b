#[anarchon::job(every = "50ms")]
async fn notify() {}

fn main() {}
