#[anarchon::job(cron = "0 8 * * *", timezone = "Europe/Pari")]
async fn notify() {}

fn main() {}
