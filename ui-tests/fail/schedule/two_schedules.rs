#[anarchon::job(every = "1h", cron = "0 8 * * *")]
async fn notify() {}

fn main() {}
