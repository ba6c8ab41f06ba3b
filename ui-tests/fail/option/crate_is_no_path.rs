#[anarchon::job(every = "1h", crate = "not a path")]
async fn notify() {}

fn main() {}
