#[anarchon::job(every("1h"))]
async fn notify() {}

fn main() {}
