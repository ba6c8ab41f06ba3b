#[anarchon::job(every = "1h", colour = "red")]
async fn notify() {}

fn main() {}
