#[anarchon::job()]
async fn notify() {}

fn main() {}
