#[anarchon::job(every = "30m1h")]
async fn notify() {}

fn main() {}
