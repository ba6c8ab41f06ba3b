anarchon::backend!(anarchon::SqliteBackend);

#[anarchon::job(every = "1h")]
async fn bill(_finish: anarchon::Finish<u32>) {}

fn main() {}
