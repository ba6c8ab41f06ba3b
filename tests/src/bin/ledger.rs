//! One instance of a service that writes something for each slot of its one job, and finishes the run in the same
//! transaction. It takes the arguments of `node` (its file of jobs holds the interval alone), and
//!
//! ```text
//! --pause-at POINT   halts once, in a first attempt, `before` the transaction, when it has `written`, when the run
//!                    is `marked`, or when all is `committed`
//! --pause-for 3s     for so long; for ever unless it is set
//! --forget           forgets once, in a first attempt, to commit
//! --database URL     by which it writes; that of the store unless it is set
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

    use anarchon::backend::sql::FinishDatabase;
    use anarchon::{AnyBackend, BoxError, Context, Finish, Scheduler, State};
    use sqlx::mysql::{MySqlPool, MySqlPoolOptions};
    use sqlx::postgres::PgPool;
    use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool};
    use sqlx::{Executor as _, MySql, Pool, Postgres, Sqlite, Transaction};
    use tests::LogWriter;
    use tokio::signal::unix::{SignalKind, signal};

    /// What the service knows of a database. A new one is one more `impl`, and a word in `main`.
    trait Ledger: FinishDatabase {
        /// What begins a transaction.
        const BEGIN: &'static str;

        /// Connects, and makes the table.
        fn open(url: &str) -> impl Future<Output = sqlx::Result<Pool<Self>>> + Send;

        /// Writes that a slot had its effect.
        fn enter(
            transaction: &mut Transaction<'_, Self>,
            slot: i64,
            attempt: i64,
        ) -> impl Future<Output = sqlx::Result<()>> + Send;
    }

    const TABLE: &str = "CREATE TABLE IF NOT EXISTS effects (slot BIGINT NOT NULL, attempt BIGINT NOT NULL)";

    impl Ledger for Sqlite {
        const BEGIN: &'static str = "BEGIN IMMEDIATE";

        async fn open(url: &str) -> sqlx::Result<SqlitePool> {
            let options: SqliteConnectOptions = url.parse()?;
            let options = options.create_if_missing(true).journal_mode(SqliteJournalMode::Wal);
            let pool = SqlitePool::connect_with(options.busy_timeout(Duration::from_secs(20))).await?;
            pool.execute(TABLE).await?;
            Ok(pool)
        }

        async fn enter(transaction: &mut Transaction<'_, Self>, slot: i64, attempt: i64) -> sqlx::Result<()> {
            let effect = sqlx::query("INSERT INTO effects (slot, attempt) VALUES (?, ?)");
            effect.bind(slot).bind(attempt).execute(&mut **transaction).await.map(drop)
        }
    }

    impl Ledger for Postgres {
        const BEGIN: &'static str = "BEGIN";

        async fn open(url: &str) -> sqlx::Result<PgPool> {
            let pool = PgPool::connect(url).await?;
            // Two that make it at once would be in each other's way.
            let table = format!("SELECT pg_advisory_xact_lock(7); {TABLE}");
            sqlx::raw_sql(sqlx::AssertSqlSafe(table)).execute(&pool).await?;
            Ok(pool)
        }

        async fn enter(transaction: &mut Transaction<'_, Self>, slot: i64, attempt: i64) -> sqlx::Result<()> {
            let effect = sqlx::query("INSERT INTO effects (slot, attempt) VALUES ($1, $2)");
            effect.bind(slot).bind(attempt).execute(&mut **transaction).await.map(drop)
        }
    }

    impl Ledger for MySql {
        const BEGIN: &'static str = "BEGIN";

        async fn open(url: &str) -> sqlx::Result<MySqlPool> {
            // Not the server's default, and what `commit_with` needs.
            let read_committed = MySqlPoolOptions::new().after_connect(|connection, _| {
                Box::pin(async move {
                    connection.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await.map(drop)
                })
            });
            let pool = read_committed.connect(url).await?;
            pool.execute(TABLE).await?;
            Ok(pool)
        }

        async fn enter(transaction: &mut Transaction<'_, Self>, slot: i64, attempt: i64) -> sqlx::Result<()> {
            let effect = sqlx::query("INSERT INTO effects (slot, attempt) VALUES (?, ?)");
            effect.bind(slot).bind(attempt).execute(&mut **transaction).await.map(drop)
        }
    }

    #[tokio::main(flavor = "multi_thread", worker_threads = 2)]
    pub(super) async fn main() {
        let args = arguments();
        std::thread::spawn(|| {
            // The test has died.
            drop(std::io::stdin().read_to_end(&mut Vec::new()));
            std::process::exit(2);
        });
        match args.get("--store").and_then(|store| store.split_once(':')) {
            Some(("sqlite", _)) => serve::<Sqlite>(args).await,
            Some(("postgres" | "postgresql", _)) => serve::<Postgres>(args).await,
            Some(("mysql" | "mariadb", _)) => serve::<MySql>(args).await,
            _ => panic!("no store of this service's"),
        }
    }

    async fn serve<Db: Ledger>(args: HashMap<String, String>) {
        let text = |name: &str| args.get(name).map(String::as_str);
        let needed = |name: &str| text(name).expect("an argument that is needed");
        let store = needed("--store");
        let books = Books {
            pool: Db::open(text("--database").unwrap_or(store)).await.expect("a pool, and a table"),
            log: LogWriter::new(Path::new(needed("--log")), needed("--instance")),
            pause_at: text("--pause-at").map(str::to_owned),
            pause_for: text("--pause-for").map(|time| anarchon::interval::parse(time).expect("a duration")),
            forget: text("--forget").is_some(),
            paused: AtomicBool::new(false),
            forgot: AtomicBool::new(false),
        };
        let mut terminate = signal(SignalKind::terminate()).expect("signals");
        let scheduler = Scheduler::builder(AnyBackend::connect(store).expect("a store"))
            .instance_id(needed("--instance"))
            .state(Arc::new(books))
            .lease(needed("--lease"))
            .watch(needed("--watch"))
            .stop_grace(needed("--stop-grace"))
            .start()
            .await
            .expect("a start");
        let interval = std::fs::read_to_string(needed("--jobs")).expect("an interval");
        let job = scheduler.every("bill", interval.trim(), bill::<Db>).retry_failed("500ms").max_attempts(5);
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

    struct Books<Db: Ledger> {
        pool: Pool<Db>,
        log: LogWriter,
        pause_at: Option<String>,
        pause_for: Option<Duration>,
        forget: bool,
        paused: AtomicBool,
        forgot: AtomicBool,
    }

    impl<Db: Ledger> Books<Db> {
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

    async fn bill<Db: Ledger>(
        ctx: Context,
        finish: Finish<Db>,
        State(books): State<Arc<Books<Db>>>,
    ) -> Result<(), BoxError> {
        books.log.say("start", &ctx, None);
        // In a task of its own, which no lost lease ends: nothing but the token is left to hold it back.
        tokio::spawn(write(ctx, finish, books)).await?
    }

    async fn write<Db: Ledger>(ctx: Context, finish: Finish<Db>, books: Arc<Books<Db>>) -> Result<(), BoxError> {
        books.point("before", &ctx).await;
        let mut tx = books.pool.begin_with(Db::BEGIN).await?;
        Db::enter(&mut tx, ctx.slot_ms(), ctx.attempt().into()).await?;
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
