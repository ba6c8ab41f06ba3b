#![forbid(unsafe_code, unused)]

#[anarchon::job(every = "1h", overlap = "skip")]
async fn notify() {}

fn main() {}
