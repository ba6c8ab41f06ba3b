//! The service of the README, which has a `main` of its own.

use anarchon::{Context, Scheduler, SqliteBackend, State};

anarchon::backend!(SqliteBackend); // for the compiler: which options there are

#[derive(Clone)]
struct App;

#[anarchon::job(cron = "0 8 * * MON-FRI", timezone = "Europe/Paris", timeout = "5m")]
async fn send_digest(ctx: Context, State(_app): State<App>) {
    println!("good morning: {}", ctx.slot());
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scheduler = Scheduler::builder(SqliteBackend::new("./jobs.db")).state(App).registered().start().await?;
    scheduler.run_now("send_digest").await?.finished().await?;
    scheduler.stop().await?;
    Ok(())
}
