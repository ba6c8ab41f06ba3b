#[anarchon::job(cron = "0 8 * * *", timezone = "PST")]
async fn notify() {}

fn main() {}
