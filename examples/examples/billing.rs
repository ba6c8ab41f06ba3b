//! A job that must never be started twice: `max_attempts = 1`, and its writes are keyed by the slot, so that even a second
//! start could not bill anybody again.
//!
//! ```text
//! cargo run -p examples --example billing
//! ```
//!
//! You will see one process bill and crash before its run has ended. A second process goes on with the later slots. It
//! leaves the crashed run alone, which history shows as `lost`. It takes some 10 seconds, ends by itself, and removes its
//! files.

use std::process::ExitCode;

use anarchon::{BoxError, Context, Event, Record, Scheduler, SqliteBackend, State};
use examples::clock;
use sqlx::SqlitePool;

anarchon::backend!(SqliteBackend);

#[derive(Clone)]
struct Books {
    pool: SqlitePool,
    crash: bool,
}

#[anarchon::job(every = "2s", max_attempts = 1)]
async fn bill(ctx: Context, State(books): State<Books>) -> Result<(), BoxError> {
    // The slot is the same in each attempt. With a payment provider it would be the idempotency key.
    let insert = "INSERT INTO bills (slot, euros) VALUES (?, 100) ON CONFLICT (slot) DO NOTHING";
    let written = sqlx::query(insert).bind(ctx.slot_ms()).execute(&books.pool).await?;
    println!("{}  {} billed 100 euros ({} row)", clock_of(&ctx), ctx.instance_id(), written.rows_affected());
    if books.crash {
        println!("{}  {} crashes before the run has ended", clock_of(&ctx), ctx.instance_id());
        std::process::exit(1);
    }
    Ok(())
}

fn clock_of(ctx: &Context) -> String {
    ctx.slot().format("%H:%M:%S").to_string()
}

async fn instance(name: &str, file: &str, crash: bool) -> Result<(Scheduler<SqliteBackend>, SqlitePool), BoxError> {
    let pool = examples::database(file).await?;
    sqlx::query("CREATE TABLE IF NOT EXISTS bills (slot INTEGER NOT NULL UNIQUE, euros INTEGER NOT NULL)")
        .execute(&pool)
        .await?;
    let scheduler = Scheduler::builder(SqliteBackend::new(file))
        .state(Books { pool: pool.clone(), crash })
        .registered()
        .instance_id(name)
        .lease("2s")
        .start()
        .await?;
    Ok((scheduler, pool))
}

async fn show() -> Result<(), BoxError> {
    // Removed with all that is in it, however this ends.
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("billing.db").display().to_string();
    let mut first =
        tokio::process::Command::new(std::env::current_exe()?).args(["--crash", &file]).kill_on_drop(true).spawn()?;
    println!("the first process has ended: {}", first.wait().await?);

    let (scheduler, pool) = instance("second", &file, false).await?;
    let mut events = scheduler.events();
    let mut ended = 0;
    while ended < 2 {
        ended += usize::from(matches!(events.recv().await?, Event::Finished { .. }));
    }
    println!("\nhistory:");
    for record in scheduler.history("bill", 10).await?.into_iter().rev() {
        match record {
            Record::Attempt(attempt) => {
                let status = attempt.status.map_or("unknown", |status| status.as_str());
                println!("{}  attempt {} by {}: {status}", clock(attempt.run.slot), attempt.attempt, attempt.instance);
            }
            // While the lease of the crashed one lasted, nobody could know that it was dead.
            Record::Skipped(skip) => println!("{}  skipped: {}", clock(skip.last), skip.reason),
            _ => {}
        }
    }
    let bills: i64 = sqlx::query_scalar("SELECT count(*) FROM bills").fetch_one(&pool).await?;
    println!("{bills} bills, at most one for each slot");
    scheduler.stop().await?;
    pool.close().await;
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args.as_slice() {
        [] => show().await,
        [flag, file] if flag == "--crash" => match instance("first", file, true).await {
            Ok(_running) => std::future::pending().await,
            Err(error) => Err(error),
        },
        _ => Err("billing takes no arguments".into()),
    };
    outcome.map_or_else(
        |error| {
            eprintln!("billing: {error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}
