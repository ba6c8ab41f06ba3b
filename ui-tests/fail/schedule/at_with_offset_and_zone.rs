#[anarchon::job(at = "2027-01-01T00:00:00+09:00", timezone = "Asia/Tokyo")]
async fn notify() {}

fn main() {}
