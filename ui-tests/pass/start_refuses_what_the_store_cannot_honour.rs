//! The crate names no backend, like a library's: then only the start can tell.

use anarchon::{ClaimOnlyMemoryBackend, Scheduler};

const LINE: u32 = line!();

#[anarchon::job(every = "1h", max_attempts = 2)]
async fn notify() {}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let refused = Scheduler::builder(ClaimOnlyMemoryBackend::new()).registered().start().await.unwrap_err().to_string();
    for part in ["`notify`", "`max_attempts`", "`memory:claim-only`", &format!("{}:{}", file!(), LINE + 2)] {
        assert!(refused.contains(part), "{part} is not in: {refused}");
    }
}
