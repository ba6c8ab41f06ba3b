#[anarchon::job(cron = "0 8 * * *", tz = "Europe/Paris")]
async fn notify() {}

fn main() {}
