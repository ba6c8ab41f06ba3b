#[anarchon::job(cron = "0 8 * *")]
async fn notify() {}

fn main() {}
