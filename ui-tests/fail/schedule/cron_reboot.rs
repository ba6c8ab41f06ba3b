#[anarchon::job(cron = "@reboot")]
async fn notify() {}

fn main() {}
