#[anarchon::job(cron = "0 8 * * *", timezone = "+02:00")]
async fn notify() {}

fn main() {}
