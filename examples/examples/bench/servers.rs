//! The floors of stores that have servers.

use std::sync::LazyLock;

use anarchon::Token;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Script};
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::Fallible;
use crate::claim::MANY;
use crate::floors::Op;

#[derive(Clone)]
pub(crate) enum Server {
    Postgres(PgPool),
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
            Some(("redis" | "valkey", _)) => {
                let config = AsyncConnectionConfig::new().set_response_timeout(None);
                let connection = Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await?;
                Ok(Some(Self::Redis(connection)))
            }
            _ => Ok(None),
        }
    }

    pub(crate) fn knows(&self, op: Op) -> bool {
        match op {
            Op::One | Op::Many => true,
            Op::Transaction => matches!(self, Self::Postgres(_)),
            Op::TransactionOfMany => false,
        }
    }

    pub(crate) async fn call(self, op: Op, index: usize, slot: i64) -> Fallible<()> {
        match self {
            Self::Postgres(pool) => postgres(&pool, op, index, slot).await,
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
