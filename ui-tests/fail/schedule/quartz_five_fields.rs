#[anarchon::job(cron = "0 8 * * *", dialect = "quartz")]
async fn notify() {}

fn main() {}
