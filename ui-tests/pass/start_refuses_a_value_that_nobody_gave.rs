use anarchon::{Data, MemoryBackend, Scheduler, State};

type Hidden = Data<u64>;

#[derive(Clone)]
struct Pool;

// The alias hides which type the data must have, so the number is an `i32`.
#[anarchon::job(every = "1h", data = 7)]
async fn with_data(_count: Hidden) {}

#[anarchon::job(every = "1h")]
async fn with_state(_pool: State<Pool>) {}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let builder = || Scheduler::builder(MemoryBackend::new()).registered();
    let refused = builder().state(Pool).start().await.unwrap_err().to_string();
    assert!(refused.contains("`with_data`") && refused.contains("u64"), "{refused}");

    let scheduler = Scheduler::builder(MemoryBackend::new()).start().await.unwrap();
    let refused = scheduler.every("by hand", "1h", with_state).add().await.unwrap_err().to_string();
    assert!(refused.contains("`by hand`") && refused.contains("Pool"), "{refused}");
    scheduler.stop().await.unwrap();
}
