#[anarchon::job(every = "1h", dialect = "quartz")]
async fn notify() {}

fn main() {}
