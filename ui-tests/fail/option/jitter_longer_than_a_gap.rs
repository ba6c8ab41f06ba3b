#[anarchon::job(cron = "*/5 8 * * *", jitter = "6m")]
async fn notify() {}

fn main() {}
