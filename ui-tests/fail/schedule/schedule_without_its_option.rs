#[anarchon::job("0 8 * * MON-FRI")]
async fn notify() {}

fn main() {}
