#[anarchon::job(cron = "0 0 30 2 *")]
async fn notify() {}

fn main() {}
