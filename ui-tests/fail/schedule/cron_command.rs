#[anarchon::job(cron = "* * * * * /bin/true")]
async fn notify() {}

fn main() {}
