#[anarchon::job(cron = "0 25 * * *")]
async fn notify() {}

fn main() {}
