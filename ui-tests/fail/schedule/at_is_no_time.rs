#[anarchon::job(at = "tomorrow")]
async fn notify() {}

fn main() {}
