//! Effects that happen exactly once: the handler marks its run done in the transaction of its own writes, so that both are
//! there, or neither.
//!
//! ```text
//! cargo run -p examples --example exactly_once_effects
//! DATABASE_URL=postgres://… cargo run -p examples --features servers --example exactly_once_effects
//! ```
//!
//! You will see one process crash just before its commit, and another, which has taken the run over, just after its own.
//! Nobody repeats that one, and in the end there is one transfer for each run that is done. It takes some 12 seconds and
//! ends by itself. Without a URL it uses a SQLite file, which it removes; with one it needs a PostgreSQL, where it leaves the
//! table `transfers` and those of anarchon.

use std::process::ExitCode;

use anarchon::backend::sql::FinishDatabase;
use anarchon::{AnyBackend, AttemptStatus, BoxError, Context, Event, Finish, Record, Scheduler, State};
use examples::clock;
use sqlx::{Encode, Executor, IntoArguments, Pool, Type};

const JOB: &str = "transfer";

/// Where this process crashes, if it does: `before` or `after` its commit.
#[derive(Clone)]
struct Crash(Option<String>);

impl Crash {
    fn at(&self, place: &str, ctx: &Context) {
        if self.0.as_deref() == Some(place) {
            println!("{}  crashes {place} its commit", ctx.slot().format("%H:%M:%S"));
            std::process::exit(1);
        }
    }
}

/// A database of sqlx that this program can do its work in: with one of them in mind, its type would stand in its place.
trait Database: FinishDatabase<Arguments: IntoArguments<Self>> {}
impl<Db: FinishDatabase<Arguments: IntoArguments<Self>>> Database for Db {}

async fn transfer<Db: Database>(
    ctx: Context,
    finish: Finish<Db>,
    State(pool): State<Pool<Db>>,
    State(crash): State<Crash>,
) -> Result<(), BoxError>
where
    i64: Type<Db> + for<'q> Encode<'q, Db>,
    for<'c> &'c mut Db::Connection: Executor<'c, Database = Db>,
{
    let mut tx = pool.begin().await?;
    // No key keeps a second transfer for the slot out: nothing needs to.
    sqlx::query("INSERT INTO transfers (slot, euros) VALUES ($1, 1)").bind(ctx.slot_ms()).execute(&mut *tx).await?;
    finish.commit_with(&mut tx).await?; // last in the transaction
    crash.at("before", &ctx);
    tx.commit().await?;
    crash.at("after", &ctx);
    println!("{}  attempt {} transferred 1 euro", ctx.slot().format("%H:%M:%S"), ctx.attempt());
    Ok(())
}

async fn run<Db: Database>(url: &str, crash: Option<String>) -> Result<(), BoxError>
where
    i64: Type<Db> + for<'q> Encode<'q, Db> + for<'r> sqlx::Decode<'r, Db>,
    for<'c> &'c mut Db::Connection: Executor<'c, Database = Db>,
    (i64,): for<'r> sqlx::FromRow<'r, Db::Row>,
{
    let pool = Pool::<Db>::connect(url).await?;
    let table = "CREATE TABLE IF NOT EXISTS transfers (slot BIGINT NOT NULL, euros BIGINT NOT NULL)";
    sqlx::query(table).execute(&pool).await?;
    let crashing = crash.is_some();
    let builder = Scheduler::builder(AnyBackend::connect(url)?).state(pool.clone()).state(Crash(crash));
    let scheduler = builder.lease("2s").start().await?;
    let mut events = scheduler.events();
    scheduler.every(JOB, "2s", transfer::<Db>).max_attempts(10).add().await?;
    let mut done = 0;
    while crashing || done < 3 {
        let event = events.recv().await?;
        done += u32::from(matches!(event, Event::Finished { status: AttemptStatus::Done, .. }));
    }
    println!("\nhistory:");
    for record in scheduler.history(JOB, 10).await?.into_iter().rev() {
        let Record::Attempt(attempt) = record else { continue };
        let status = attempt.status.map_or("unknown", |status| status.as_str());
        let count = "SELECT count(*) FROM transfers WHERE slot = $1";
        let (euros,): (i64,) = sqlx::query_as(count).bind(attempt.run.slot.ms()).fetch_one(&pool).await?;
        println!("{}  attempt {}: {status}, transfers for the slot: {euros}", clock(attempt.run.slot), attempt.attempt);
    }
    scheduler.stop().await?;
    pool.close().await;
    Ok(())
}

async fn of_any_kind(url: &str, crash: Option<String>) -> Result<(), BoxError> {
    match url.split(':').next() {
        #[cfg(feature = "servers")]
        Some("postgres" | "postgresql") => run::<sqlx::Postgres>(url, crash).await,
        Some("sqlite") => run::<sqlx::Sqlite>(url, crash).await,
        _ => Err("DATABASE_URL is not one of `sqlite:`, nor `postgres:` with the feature `servers`".into()),
    }
}

async fn show() -> Result<(), BoxError> {
    let directory = tempfile::tempdir()?;
    let file = format!("sqlite:{}?mode=rwc", directory.path().join("transfers.db").display());
    let url = std::env::var("DATABASE_URL").unwrap_or(file);
    for place in ["before", "after"] {
        let mut crashing = tokio::process::Command::new(std::env::current_exe()?);
        // By the environment, since everybody can read a program's arguments, and the URL may have a password.
        crashing.args(["--crash", place]).env("DATABASE_URL", &url).kill_on_drop(true).spawn()?.wait().await?;
    }
    of_any_kind(&url, None).await
}

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args.as_slice() {
        [] => show().await,
        [flag, place] if flag == "--crash" => {
            of_any_kind(&std::env::var("DATABASE_URL").unwrap_or_default(), Some(place.clone())).await
        }
        _ => Err("exactly_once_effects takes no arguments".into()),
    };
    let Err(error) = outcome else { return ExitCode::SUCCESS };
    eprintln!("exactly_once_effects: {error}");
    ExitCode::FAILURE
}
