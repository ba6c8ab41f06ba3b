#[anarchon::job(cron = "0 8 * * MONFRI")]
async fn notify() {}

fn main() {}
