//! What a library does: which store its jobs will meet is decided by the program, at its start.

#[anarchon::job(every = "1h", overlap = "skip", max_attempts = 2, history_ttl = "30d")]
async fn notify() {}

fn main() {}
