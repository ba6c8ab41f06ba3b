use anarchon::{MemoryBackend, Scheduler};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    assert!(Scheduler::builder(MemoryBackend::new()).registered().start().await.is_err());
}
