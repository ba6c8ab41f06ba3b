//! A job that takes long, and lives through deployments: a stopped process hands its run over, and the next one goes on
//! with the same slot where the first one stopped, since the progress is in the database.
//!
//! ```text
//! cargo run -p examples --example nightly_export [FILE]
//! ```
//!
//! You will see an export of 10 pages. It takes 5 seconds where a slot comes every 4, so that each second slot is skipped
//! (`overlap = "skip"`). Press Ctrl-C, or send SIGTERM, in the middle of one and start the program again: it takes the
//! same slot over, as attempt 2, at the next page. Wait a while before you start it again, and it makes up for the latest
//! slot that it has missed (`catch_up`).
//!
//! It runs until it is told to stop. What it keeps is in FILE, by default `anarchon-nightly_export.db` in the folder for
//! temporary files.

use std::time::Duration;

use anarchon::{BoxError, Context, Event, Scheduler, SqliteBackend, State};
use examples::clock;
use sqlx::SqlitePool;

anarchon::backend!(SqliteBackend);

const PAGES: i64 = 10;

/// In earnest `cron = "0 3 * * *"`, and `catch_up = "6h"`.
#[anarchon::job(every = "4s", overlap = "skip", catch_up = "1h")]
async fn nightly_export(ctx: Context, State(pool): State<SqlitePool>) -> Result<(), BoxError> {
    let (slot, time) = (ctx.slot_ms(), ctx.slot().format("%H:%M:%S"));
    let done = "SELECT count(*) FROM pages WHERE slot = ?";
    let done: i64 = sqlx::query_scalar(done).bind(slot).fetch_one(&pool).await?;
    println!("{time}  attempt {} ({}) begins with page {}", ctx.attempt(), ctx.reason().as_str(), done + 1);
    for page in done + 1..=PAGES {
        tokio::select! {
            // What a page takes.
            () = tokio::time::sleep(Duration::from_millis(500)) => {}
            why = ctx.cancelled() => {
                println!("{time}  ends before page {page}: {why}");
                return Err("told to end".into());
            }
        }
        let write = "INSERT INTO pages (slot, page) VALUES (?, ?) ON CONFLICT (slot, page) DO NOTHING";
        sqlx::query(write).bind(slot).bind(page).execute(&pool).await?;
        println!("{time}  page {page} of {PAGES}");
    }
    println!("{time}  exported");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let default = || std::env::temp_dir().join("anarchon-nightly_export.db").display().to_string();
    let file = std::env::args().nth(1).unwrap_or_else(default);
    println!("the file is {file}");
    let pool = examples::database(&file).await?;
    sqlx::query("CREATE TABLE IF NOT EXISTS pages (slot INTEGER, page INTEGER, PRIMARY KEY (slot, page))")
        .execute(&pool)
        .await?;
    let scheduler =
        Scheduler::builder(SqliteBackend::new(&file)).state(pool.clone()).registered().watch("500ms").start().await?;

    let mut events = scheduler.events();
    let told = tokio::spawn(async move {
        while let Ok(event) = events.recv().await {
            match event {
                Event::Skipped { slot, .. } => println!("{}  skipped: the export before it goes on", clock(slot)),
                Event::HandedOver { run, .. } => println!("{}  handed over", clock(run.slot)),
                _ => {}
            }
        }
    });
    examples::told_to_stop().await?;
    scheduler.stop().await?;
    drop(scheduler);
    told.await?;
    pool.close().await;
    Ok(())
}
