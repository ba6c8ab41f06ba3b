#[anarchon::job(every = 10)]
async fn notify() {}

fn main() {}
