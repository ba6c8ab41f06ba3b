#[anarchon::job(cron = "0 8 * * MON-FRI", name = "morning")]
#[anarchon::job(cron = "0 20 * * MON-FRI", name = "evening")]
async fn notify() {}

fn main() {}
