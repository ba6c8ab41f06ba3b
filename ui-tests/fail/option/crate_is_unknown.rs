#[anarchon::job(every = "1h", crate = "tasks")]
async fn notify() {}

fn main() {}
