#[anarchon::job(every = "1h")]
async fn notify(_context: &anarchon::Context) {}

fn main() {}
