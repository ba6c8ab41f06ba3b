#[anarchon::job(every = 1h30m)]
async fn notify() {}

fn main() {}
