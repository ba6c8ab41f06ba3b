#[anarchon::job(every = "1h", overlap)]
async fn notify() {}

fn main() {}
