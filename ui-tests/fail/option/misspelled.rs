#[anarchon::job(every = "1h", max_atempts = 2)]
async fn notify() {}

fn main() {}
