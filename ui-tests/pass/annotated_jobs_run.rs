use std::sync::atomic::{AtomicU64, Ordering};

use anarchon::{AttemptStatus, Context, Data, MemoryBackend, Scheduler, State};

static SUM: AtomicU64 = AtomicU64::new(0);

#[derive(Clone)]
struct Seven(u64);

#[anarchon::job(every = "1h", data = 5, name = "add all")]
async fn add(context: Context, State(Seven(seven)): State<Seven>, Data(five): Data<u64>) {
    SUM.fetch_add(seven + five + u64::from(context.attempt()), Ordering::SeqCst);
}

#[anarchon::job(cron = "0 8 * * *")]
async fn fails() -> Result<(), std::num::ParseIntError> {
    "seven".parse::<u64>()?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), anarchon::Error> {
    let scheduler = Scheduler::builder(MemoryBackend::new()).state(Seven(7)).registered().start().await?;
    let names: Vec<String> = scheduler.jobs().await?.iter().map(|job| job.name.to_string()).collect();
    assert_eq!(names, ["add all", "fails"]);

    scheduler.run_now("add all").await?.finished().await?;
    assert_eq!(SUM.load(Ordering::SeqCst), 13);

    let _ = scheduler.run_now("fails").await?.finished().await;
    let last = scheduler.last_run("fails").await?.unwrap();
    assert_eq!(last.status, Some(AttemptStatus::Failed));
    scheduler.stop().await
}
