use anarchon::{Context, Finish, MemoryBackend, Scheduler};
use sqlx::Sqlite;

async fn bill(_context: Context, _finish: Finish<Sqlite>) {}

fn add(scheduler: &Scheduler<MemoryBackend>) {
    let _ = scheduler.every("bill", "1h", bill);
}

fn main() {}
