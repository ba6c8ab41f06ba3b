#[anarchon::job(every = "1h")]
async fn notify(_context: anarchon::Context, _count: u32) {}

fn main() {}
