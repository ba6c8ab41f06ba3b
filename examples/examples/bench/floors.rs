//! What a bare store takes for the least that a claim could be.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anarchon::Token;
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use crate::Fallible;
use crate::claim::{MANY, Measured};
#[cfg(feature = "servers")]
use crate::servers;
use crate::usage::wall_us;

/// Calls of one phase.
const CALLS: usize = 200;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    /// One row in one call.
    One,
    /// The textbook way: begin, look, insert, commit.
    Transaction,
    /// A hundred rows in one call.
    Many,
    /// The textbook way of that: begin, a hundred times look and insert, commit.
    TransactionOfMany,
}

impl Op {
    pub(crate) const ALL: &[Self] = &[Self::One, Self::Transaction, Self::Many, Self::TransactionOfMany];

    /// How many rows one call is about.
    fn rows(self) -> usize {
        if matches!(self, Self::Many | Self::TransactionOfMany) { MANY } else { 1 }
    }

    pub(crate) fn name(self, scheme: &str) -> &'static str {
        match (scheme, self) {
            ("memory", Self::One) => "mutex + map insert",
            ("memory", _) => "mutex + 100 inserts",
            ("postgres" | "postgresql", Self::One) => "bare: one statement",
            ("postgres" | "postgresql", Self::Transaction) => "bare: 5 statements",
            ("postgres" | "postgresql", Self::Many) => "bare: unnest(100)",
            ("mysql" | "mariadb", Self::One) => "bare: one statement",
            ("mysql" | "mariadb", Self::Transaction) => "bare: 5 statements",
            ("mysql" | "mariadb", Self::Many) => "bare: insert(100)",
            ("http", Self::One) => "bare: one request",
            ("http", Self::Transaction) => "bare: 4 requests",
            ("redis" | "valkey", Self::Many) => "bare: 100 in a script",
            ("redis" | "valkey", _) => "bare: one script",
            (_, Self::One) => "bare: one call",
            (_, Self::Transaction) => "bare: 4 calls",
            (_, Self::Many) => "bare: json_each(100)",
            (_, Self::TransactionOfMany) => "bare: 202 calls",
        }
    }
}

/// A store without anything around it.
pub(crate) enum Floor {
    Memory(Arc<Mutex<HashMap<(String, i64), Token>>>),
    Sqlite(SqlitePool),
    #[cfg(feature = "servers")]
    Server(servers::Server),
    /// None is known for this scheme.
    None,
}

impl Floor {
    pub(crate) async fn open(url: &str) -> Fallible<Self> {
        match url.split_once(':') {
            Some(("memory", _)) => Ok(Self::Memory(Arc::default())),
            Some(("sqlite", place)) => {
                let place = place.trim_start_matches("//");
                let options = SqliteConnectOptions::new()
                    .filename(format!("{place}-bare"))
                    .create_if_missing(true)
                    .journal_mode(SqliteJournalMode::Wal)
                    .synchronous(SqliteSynchronous::Normal)
                    .busy_timeout(Duration::from_secs(5));
                // As the library does: one connection, and no ping before each call.
                let pool = SqlitePoolOptions::new().max_connections(1).test_before_acquire(false);
                let pool = pool.connect_with(options).await?;
                let table = "CREATE TABLE IF NOT EXISTS bench_bare (job TEXT, slot INTEGER, token TEXT, \
                             PRIMARY KEY (job, slot)) WITHOUT ROWID";
                sqlx::query(table).execute(&pool).await?;
                Ok(Self::Sqlite(pool))
            }
            #[cfg(feature = "servers")]
            _ => Ok(servers::Server::open(url).await?.map_or(Self::None, Self::Server)),
            #[cfg(not(feature = "servers"))]
            _ => Ok(Self::None),
        }
    }

    pub(crate) async fn measure(&self, op: Op, tasks: usize, time: Duration) -> Fallible<Option<Measured>> {
        let mut measured = Measured::default();
        let things = op.rows();
        // Slots that no run before this one has used.
        let first = wall_us();
        let begun = Instant::now();
        let mut round = 0;
        while begun.elapsed() < time {
            let slot = first + round;
            match self {
                Self::None => return Ok(None),
                Self::Memory(_) if matches!(op, Op::Transaction | Op::TransactionOfMany) => return Ok(None),
                Self::Memory(map) => {
                    let map = Arc::clone(map);
                    let call = move |index: usize| {
                        let map = Arc::clone(&map);
                        async move {
                            let mut map = map.lock().map_err(|_| "a task panicked")?;
                            for job in 0..things {
                                map.insert((format!("bench-{index}-{job}"), slot), Token::random());
                            }
                            Ok(())
                        }
                    };
                    measured.phase(tasks, CALLS, things, call).await?;
                }
                Self::Sqlite(pool) => {
                    let pool = pool.clone();
                    let call = move |index: usize| {
                        let pool = pool.clone();
                        async move { sqlite(&pool, op, index, slot).await }
                    };
                    measured.phase(tasks, CALLS, things, call).await?;
                }
                #[cfg(feature = "servers")]
                Self::Server(server) if !server.knows(op) => return Ok(None),
                #[cfg(feature = "servers")]
                Self::Server(server) => {
                    let server = server.clone();
                    let call = move |index: usize| {
                        let server = server.clone();
                        async move { server.call(op, index, slot).await }
                    };
                    measured.phase(tasks, CALLS, things, call).await?;
                }
            }
            round += 1;
        }
        Ok(Some(measured))
    }
}

async fn sqlite(pool: &SqlitePool, op: Op, index: usize, slot: i64) -> Fallible<()> {
    let insert = "INSERT INTO bench_bare VALUES (?, ?, ?) ON CONFLICT DO NOTHING";
    let (job, token) = (format!("bench-{index:04}"), Token::random().to_string());
    match op {
        Op::One => {
            sqlx::query(insert).bind(job).bind(slot).bind(token).execute(pool).await?;
        }
        Op::Transaction | Op::TransactionOfMany => {
            let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
            for row in 0..op.rows() {
                let (job, token) = (format!("{job}-{row:03}"), Token::random().to_string());
                let look = "SELECT token FROM bench_bare WHERE job = ? AND slot = ?";
                let taken = sqlx::query(look).bind(&job).bind(slot).fetch_optional(&mut *transaction).await?;
                if taken.is_none() {
                    sqlx::query(insert).bind(job).bind(slot).bind(token).execute(&mut *transaction).await?;
                }
            }
            transaction.commit().await?;
        }
        Op::Many => {
            let rows: Vec<_> = (0..MANY).map(|row| (format!("{job}-{row:03}"), Token::random().to_string())).collect();
            let many = "INSERT INTO bench_bare SELECT value ->> 0, ?, value ->> 1 FROM json_each(?) WHERE true \
                        ON CONFLICT DO NOTHING RETURNING job";
            // Which of them were won has to be told.
            let won = sqlx::query(many).bind(slot).bind(serde_json::to_string(&rows)?).fetch_all(pool).await?;
            debug_assert_eq!(won.len(), MANY);
        }
    }
    Ok(())
}
