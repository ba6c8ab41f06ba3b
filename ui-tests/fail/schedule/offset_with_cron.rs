#[anarchon::job(cron = "0 8 * * *", offset = "5m")]
async fn notify() {}

fn main() {}
