//! One instance of a service that writes something for each slot of its one job, and finishes the run in the same
//! transaction. It takes the arguments of `node` (its file of jobs holds the interval alone), and
//!
//! ```text
//! --pause-at POINT   halts once, in a first attempt, `before` the transaction, when it has `written`, when the run
//!                    is `marked`, or when all is `committed`
//! --pause-for 3s     for so long; for ever unless it is set
//! --forget           forgets once, in a first attempt, to commit
//! ```

#![cfg_attr(not(unix), allow(unused))]
#![allow(clippy::expect_used, reason = "this program serves tests, where a panic is how a failure is told")]

#[cfg(not(unix))]
fn main() {}

#[cfg(unix)]
fn main() {
    service::main();
}

#[cfg(unix)]
mod service {
    use std::collections::HashMap;
    use std::io::Read as _;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use anarchon::{BoxError, Context, Finish, Scheduler, SqliteBackend, State};
    use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool};
    use sqlx::{Executor as _, Sqlite};
    use tests::LogWriter;
    use tokio::signal::unix::{SignalKind, signal};

    #[tokio::main(flavor = "multi_thread", worker_threads = 2)]
    pub(super) async fn main() {
        let args = arguments();
        let text = |name: &str| args.get(name).map(String::as_str);
        let needed = |name: &str| text(name).expect("an argument that is needed");
        std::thread::spawn(|| {
            // The test has died.
            drop(std::io::stdin().read_to_end(&mut Vec::new()));
            std::process::exit(2);
        });
        let store = needed("--store");
        let books = Books {
            pool: open(store).await,
            log: LogWriter::new(Path::new(needed("--log")), needed("--instance")),
            pause_at: text("--pause-at").map(str::to_owned),
            pause_for: text("--pause-for").map(|time| anarchon::interval::parse(time).expect("a duration")),
            forget: text("--forget").is_some(),
            paused: AtomicBool::new(false),
            forgot: AtomicBool::new(false),
        };
        let mut terminate = signal(SignalKind::terminate()).expect("signals");
        let scheduler = Scheduler::builder(SqliteBackend::new(store))
            .instance_id(needed("--instance"))
            .state(Arc::new(books))
            .lease(needed("--lease"))
            .watch(needed("--watch"))
            .stop_grace(needed("--stop-grace"))
            .start()
            .await
            .expect("a start");
        let interval = std::fs::read_to_string(needed("--jobs")).expect("an interval");
        let job = scheduler.every("bill", interval.trim(), bill).retry_failed("500ms").max_attempts(5);
        job.add().await.expect("a job");
        println!("ready");
        terminate.recv().await;
        scheduler.stop().await.expect("a stop");
    }

    fn arguments() -> HashMap<String, String> {
        let mut words = std::env::args().skip(1);
        let mut args = HashMap::new();
        while let Some(word) = words.next() {
            let flag = matches!(word.as_str(), "--with-stdin" | "--forget");
            let value = if flag { String::new() } else { words.next().expect("a value") };
            args.insert(word, value);
        }
        args
    }

    async fn open(store: &str) -> SqlitePool {
        let path = store.strip_prefix("sqlite:").expect("an SQLite file");
        let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
        let options = options.journal_mode(SqliteJournalMode::Wal).busy_timeout(Duration::from_secs(20));
        let pool = SqlitePool::connect_with(options).await.expect("a pool");
        pool.execute("CREATE TABLE IF NOT EXISTS effects (slot INTEGER NOT NULL, attempt INTEGER NOT NULL)")
            .await
            .expect("a table");
        pool
    }

    struct Books {
        pool: SqlitePool,
        log: LogWriter,
        pause_at: Option<String>,
        pause_for: Option<Duration>,
        forget: bool,
        paused: AtomicBool,
        forgot: AtomicBool,
    }

    impl Books {
        async fn point(&self, point: &str, ctx: &Context) {
            let here = self.pause_at.as_deref() == Some(point) && ctx.attempt() == 1;
            if !here || self.paused.swap(true, Ordering::SeqCst) {
                return;
            }
            self.log.say(point, ctx, None);
            match self.pause_for {
                Some(time) => tokio::time::sleep(time).await,
                None => std::future::pending().await,
            }
        }
    }

    async fn bill(ctx: Context, finish: Finish<Sqlite>, State(books): State<Arc<Books>>) -> Result<(), BoxError> {
        books.log.say("start", &ctx, None);
        // In a task of its own, which no lost lease ends: nothing but the token is left to hold it back.
        tokio::spawn(write(ctx, finish, books)).await?
    }

    async fn write(ctx: Context, finish: Finish<Sqlite>, books: Arc<Books>) -> Result<(), BoxError> {
        books.point("before", &ctx).await;
        let mut tx = books.pool.begin_with("BEGIN IMMEDIATE").await?;
        let effect = sqlx::query("INSERT INTO effects (slot, attempt) VALUES (?, ?)");
        effect.bind(ctx.slot_ms()).bind(ctx.attempt()).execute(&mut *tx).await?;
        books.point("written", &ctx).await;
        if let Err(refused) = finish.commit_with(&mut tx).await {
            tx.rollback().await?;
            books.log.say("refused", &ctx, Some(refused.to_string()));
            return Err(refused.into());
        }
        books.point("marked", &ctx).await;
        if books.forget && ctx.attempt() == 1 && !books.forgot.swap(true, Ordering::SeqCst) {
            books.log.say("end", &ctx, Some("forgot".to_owned()));
            return Ok(());
        }
        tx.commit().await?;
        books.point("committed", &ctx).await;
        books.log.say("end", &ctx, Some("done".to_owned()));
        Ok(())
    }
}
