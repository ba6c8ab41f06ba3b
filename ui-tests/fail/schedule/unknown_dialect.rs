#[anarchon::job(cron = "0 8 * * *", dialect = "quarz")]
async fn notify() {}

fn main() {}
