#[anarchon::job(every = "1h", name = "")]
async fn notify() {}

fn main() {}
