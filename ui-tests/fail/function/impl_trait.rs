#[anarchon::job(every = "1h")]
async fn notify(_name: impl Into<String>) {}

fn main() {}
