#[anarchon::job(every = "1h")]
fn notify() {}

fn main() {}
