#[anarchon::job(every = "1h", history_size = 0)]
async fn notify() {}

fn main() {}
