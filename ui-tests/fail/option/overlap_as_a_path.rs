#[anarchon::job(every = "1h", overlap = anarchon::Overlap::Skip)]
async fn notify() {}

fn main() {}
