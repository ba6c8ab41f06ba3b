#[anarchon::job(cron = r#"*/61 * * * *"#)]
async fn notify() {}

fn main() {}
