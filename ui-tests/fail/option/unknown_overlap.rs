#[anarchon::job(every = "1h", overlap = "queue")]
async fn notify() {}

fn main() {}
