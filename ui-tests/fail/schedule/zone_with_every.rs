#[anarchon::job(every = "1h", timezone = "Europe/Paris")]
async fn notify() {}

fn main() {}
