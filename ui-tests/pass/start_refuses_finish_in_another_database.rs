//! The crate names no backend, like a library's: then only the start can tell.

use anarchon::{Finish, MemoryBackend, Scheduler};

const LINE: u32 = line!();

#[anarchon::job(every = "1h")]
async fn bill(_finish: Finish<sqlx::Sqlite>) {}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let refused = Scheduler::builder(MemoryBackend::new()).registered().start().await.unwrap_err().to_string();
    for part in ["`bill`", "`Finish<Sqlite>`", "`memory`", &format!("{}:{}", file!(), LINE + 2)] {
        assert!(refused.contains(part), "{part} is not in: {refused}");
    }
}
