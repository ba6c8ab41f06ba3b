use anarchon::{MemoryBackend, Scheduler};

const LINE: u32 = line!();

mod first {
    #[anarchon::job(every = "1h")]
    async fn notify() {}
}

mod second {
    #[anarchon::job(cron = "0 8 * * *", name = "notify")]
    async fn notify_too() {}
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let refused = Scheduler::builder(MemoryBackend::new()).registered().start().await.unwrap_err().to_string();
    let (first, second) = (format!("{}:{}", file!(), LINE + 3), format!("{}:{}", file!(), LINE + 8));
    for part in ["`notify`", &first, &second] {
        assert!(refused.contains(part), "{part} is not in: {refused}");
    }
}
