#[anarchon::job(every = "1h", offset = "1h")]
async fn notify() {}

fn main() {}
