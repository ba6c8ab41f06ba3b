struct Region;

#[anarchon::job(every = "1h", data = Region)]
async fn notify() {}

fn main() {}
