struct Pool;

#[anarchon::job(every = "1h")]
async fn notify(_pool: anarchon::State<Pool>) {}

fn main() {}
