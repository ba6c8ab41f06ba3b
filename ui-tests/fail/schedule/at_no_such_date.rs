#[anarchon::job(at = "2027-02-30T00:00:00")]
async fn notify() {}

fn main() {}
