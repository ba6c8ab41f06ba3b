#[anarchon::job(every = "10x")]
async fn notify() {}

fn main() {}
