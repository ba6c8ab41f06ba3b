#[anarchon::job(at = "2027-01-01T00:00:00", overlap = "skip")]
async fn notify() {}

fn main() {}
