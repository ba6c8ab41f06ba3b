//! The floors of stores that have servers.

use std::sync::{Arc, LazyLock};

use anarchon::Token;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Script};
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, MySqlPool, PgPool};
use tokio::sync::Mutex;

use crate::Fallible;
use crate::claim::MANY;
use crate::floors::Op;

#[derive(Clone)]
pub(crate) enum Server {
    Postgres(PgPool),
    MySql {
        pool: MySqlPool,
        returning: bool,
    },
    /// One request at a time, as the library sends them.
    Libsql(Arc<Mutex<libsql::Connection>>),
    Redis(MultiplexedConnection),
}

impl Server {
    /// `None` where no floor is known for this scheme.
    pub(crate) async fn open(url: &str) -> Fallible<Option<Self>> {
        match url.split_once(':') {
            Some(("postgres" | "postgresql", _)) => {
                let options: PgConnectOptions = url.parse()?;
                // As many connections as the library has.
                let pool = PgPoolOptions::new().max_connections(2).test_before_acquire(false);
                let pool = pool.connect_with(options).await?;
                for table in [
                    "CREATE TABLE IF NOT EXISTS bench_bare (job TEXT, slot BIGINT, token TEXT, PRIMARY KEY (job, slot))",
                    "CREATE TABLE IF NOT EXISTS bench_bare_jobs (job TEXT PRIMARY KEY, fence BIGINT)",
                ] {
                    sqlx::query(table).execute(&pool).await?;
                }
                Ok(Some(Self::Postgres(pool)))
            }
            Some(("mysql" | "mariadb", rest)) => {
                let options: MySqlConnectOptions = format!("mysql:{rest}").parse()?;
                // As many connections as the library has.
                let pool = MySqlPoolOptions::new().max_connections(4).test_before_acquire(false);
                let pool = pool.connect_with(options).await?;
                for table in [
                    "CREATE TABLE IF NOT EXISTS bench_bare \
                     (job VARBINARY(512), slot BIGINT, token VARBINARY(512), PRIMARY KEY (job, slot))",
                    "CREATE TABLE IF NOT EXISTS bench_bare_jobs (job VARBINARY(512) PRIMARY KEY, fence BIGINT)",
                ] {
                    sqlx::query(table).execute(&pool).await?;
                }
                let version: String = sqlx::query_scalar("SELECT VERSION()").fetch_one(&pool).await?;
                Ok(Some(Self::MySql { pool, returning: version.contains("MariaDB") }))
            }
            // Without TLS.
            Some(("http", _)) => {
                let token = std::env::var("LIBSQL_AUTH_TOKEN").unwrap_or_default();
                let mut http = hyper::client::HttpConnector::new();
                http.set_nodelay(true);
                let database = libsql::Builder::new_remote(url.to_owned(), token).connector(http).build().await?;
                let connection = database.connect()?;
                let table = "CREATE TABLE IF NOT EXISTS bench_bare (job TEXT, slot INTEGER, token TEXT, \
                             PRIMARY KEY (job, slot)) WITHOUT ROWID";
                connection.execute(table, ()).await?;
                Ok(Some(Self::Libsql(Arc::new(Mutex::new(connection)))))
            }
            Some(("redis" | "valkey", _)) => {
                let config = AsyncConnectionConfig::new().set_response_timeout(None);
                let connection = Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await?;
                Ok(Some(Self::Redis(connection)))
            }
            _ => Ok(None),
        }
    }

    pub(crate) fn knows(&self, op: Op) -> bool {
        match self {
            // Only SQLite's floors know that one.
            _ if op == Op::TransactionOfMany => false,
            Self::Postgres(_) | Self::Libsql(_) => true,
            // A MySQL cannot tell in one statement which rows it has inserted.
            Self::MySql { returning, .. } => *returning || op != Op::Many,
            Self::Redis(_) => op != Op::Transaction,
        }
    }

    pub(crate) async fn call(self, op: Op, index: usize, slot: i64) -> Fallible<()> {
        match self {
            Self::Postgres(pool) => postgres(&pool, op, index, slot).await,
            Self::MySql { pool, .. } => mysql(&pool, op, index, slot).await,
            Self::Libsql(connection) => libsql(&*connection.lock().await, op, index, slot).await,
            Self::Redis(connection) => redis(connection, if op == Op::Many { MANY } else { 1 }, index, slot).await,
        }
    }
}

async fn postgres(pool: &PgPool, op: Op, index: usize, slot: i64) -> Fallible<()> {
    let insert = "INSERT INTO bench_bare VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    let (job, token) = (format!("bench-{index:04}"), Token::random().to_string());
    match op {
        Op::One => {
            sqlx::query(insert).bind(job).bind(slot).bind(token).execute(pool).await?;
        }
        Op::Transaction => {
            let mut transaction = pool.begin().await?;
            let lock = "INSERT INTO bench_bare_jobs AS j VALUES ($1, 1) \
                        ON CONFLICT (job) DO UPDATE SET fence = j.fence + 1";
            sqlx::query(lock).bind(&job).execute(&mut *transaction).await?;
            let look = "SELECT token FROM bench_bare WHERE job = $1 AND slot = $2";
            let taken = sqlx::query(look).bind(&job).bind(slot).fetch_optional(&mut *transaction).await?;
            if taken.is_none() {
                sqlx::query(insert).bind(job).bind(slot).bind(token).execute(&mut *transaction).await?;
            }
            transaction.commit().await?;
        }
        Op::Many => {
            let jobs: Vec<String> = (0..MANY).map(|row| format!("{job}-{row:03}")).collect();
            let tokens: Vec<String> = (0..MANY).map(|_| Token::random().to_string()).collect();
            let many = "INSERT INTO bench_bare SELECT job, $2, token FROM unnest($1::text[], $3::text[]) u (job, token) \
                        ON CONFLICT DO NOTHING RETURNING job";
            let won = sqlx::query(many).bind(jobs).bind(slot).bind(tokens).fetch_all(pool).await?;
            debug_assert_eq!(won.len(), MANY);
        }
        Op::TransactionOfMany => return Err("not measured here".into()),
    }
    Ok(())
}

async fn mysql(pool: &MySqlPool, op: Op, index: usize, slot: i64) -> Fallible<()> {
    static MANY_ROWS: LazyLock<String> = LazyLock::new(|| {
        format!("INSERT IGNORE INTO bench_bare VALUES {} RETURNING job", vec!["(?, ?, ?)"; MANY].join(", "))
    });
    let insert = "INSERT IGNORE INTO bench_bare VALUES (?, ?, ?)";
    let (job, token) = (format!("bench-{index:04}"), Token::random().to_string());
    match op {
        Op::One => {
            sqlx::query(insert).bind(job).bind(slot).bind(token).execute(pool).await?;
        }
        Op::Transaction => {
            let mut transaction = pool.begin().await?;
            let lock = "INSERT INTO bench_bare_jobs VALUES (?, 1) ON DUPLICATE KEY UPDATE fence = fence + 1";
            sqlx::query(lock).bind(&job).execute(&mut *transaction).await?;
            let look = "SELECT token FROM bench_bare WHERE job = ? AND slot = ?";
            let taken = sqlx::query(look).bind(&job).bind(slot).fetch_optional(&mut *transaction).await?;
            if taken.is_none() {
                sqlx::query(insert).bind(job).bind(slot).bind(token).execute(&mut *transaction).await?;
            }
            transaction.commit().await?;
        }
        Op::Many => {
            let mut many = sqlx::query(AssertSqlSafe(MANY_ROWS.as_str()));
            for row in 0..MANY {
                many = many.bind(format!("{job}-{row:03}")).bind(slot).bind(Token::random().to_string());
            }
            let won = many.fetch_all(pool).await?;
            debug_assert_eq!(won.len(), MANY);
        }
        Op::TransactionOfMany => return Err("not measured here".into()),
    }
    Ok(())
}

async fn libsql(connection: &libsql::Connection, op: Op, index: usize, slot: i64) -> Fallible<()> {
    let insert = "INSERT INTO bench_bare VALUES (?, ?, ?) ON CONFLICT DO NOTHING";
    let (job, token) = (format!("bench-{index:04}"), Token::random().to_string());
    match op {
        Op::One => {
            connection.execute(insert, (job, slot, token)).await?;
        }
        Op::Transaction => {
            let transaction = connection.transaction_with_behavior(libsql::TransactionBehavior::Immediate).await?;
            let look = "SELECT token FROM bench_bare WHERE job = ? AND slot = ?";
            let taken = transaction.query(look, (job.as_str(), slot)).await?.next().await?;
            if taken.is_none() {
                transaction.execute(insert, (job, slot, token)).await?;
            }
            transaction.commit().await?;
        }
        Op::Many => {
            let rows: Vec<_> = (0..MANY).map(|row| (format!("{job}-{row:03}"), Token::random().to_string())).collect();
            let many = "INSERT INTO bench_bare SELECT value ->> 0, ?, value ->> 1 FROM json_each(?) WHERE true \
                        ON CONFLICT DO NOTHING RETURNING job";
            let mut won = connection.query(many, (slot, serde_json::to_string(&rows)?)).await?;
            let mut count = 0;
            while won.next().await?.is_some() {
                count += 1;
            }
            debug_assert_eq!(count, MANY);
        }
        Op::TransactionOfMany => return Err("not measured here".into()),
    }
    Ok(())
}

/// The least that decides slots: the first token of each stays.
async fn redis(mut connection: MultiplexedConnection, things: usize, index: usize, slot: i64) -> Fallible<()> {
    static SCRIPT: LazyLock<Script> = LazyLock::new(|| {
        Script::new(
            "local won = {} for at, key in ipairs(KEYS) do \
             won[at] = redis.call('SET', key, ARGV[at], 'NX', 'PX', 600000) and 1 or 0 end return won",
        )
    });
    let mut call = SCRIPT.prepare_invoke();
    for thing in 0..things {
        call.key(format!("bench:{{{index:04}-{thing:03}}}:{slot}")).arg(Token::random().to_string());
    }
    let won: Vec<u8> = call.invoke_async(&mut connection).await?;
    if won.len() == things { Ok(()) } else { Err("too few answers".into()) }
}
