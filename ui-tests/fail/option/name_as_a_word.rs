#[anarchon::job(every = "1h", name = notify)]
async fn notify() {}

fn main() {}
