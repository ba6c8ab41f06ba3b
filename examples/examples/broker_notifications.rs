//! An outbox: what is to be told to others is written in the transaction of the change itself, and a job publishes it. So a
//! message is neither lost, nor sent for a change that was rolled back.
//!
//! ```text
//! cargo run -p examples --example broker_notifications
//! NATS_URL=nats://localhost cargo run -p examples --features servers --example broker_notifications
//! ```
//!
//! With a URL it needs a NATS server with JetStream, where it makes the stream `ANARCHON_EXAMPLE` if it is not there, and
//! leaves it; without one it prints what it would publish. You will see three orders placed, and each of them published
//! within a second. It ends by itself and removes its file.

use anarchon::{BoxError, Context, Event, Scheduler, SqliteBackend, State};
use sqlx::SqlitePool;

anarchon::backend!(SqliteBackend);

const TABLES: &str = "CREATE TABLE orders (id INTEGER PRIMARY KEY, what TEXT NOT NULL);
                      CREATE TABLE outbox (id TEXT PRIMARY KEY, body TEXT NOT NULL);";

/// Whom the messages go to.
#[derive(Clone)]
enum Broker {
    Terminal,
    #[cfg(feature = "servers")]
    Nats(Box<async_nats::jetstream::Context>),
}

impl Broker {
    async fn from_env() -> Result<Self, BoxError> {
        let Ok(_url) = std::env::var("NATS_URL") else { return Ok(Self::Terminal) };
        #[cfg(not(feature = "servers"))]
        return Err("NATS_URL is set, and the feature `servers` is not".into());
        #[cfg(feature = "servers")]
        {
            use async_nats::jetstream::{self, stream::Config};
            let nats = jetstream::new(async_nats::connect(_url).await?);
            let (name, subjects) = ("ANARCHON_EXAMPLE".to_owned(), vec!["anarchon-example.>".to_owned()]);
            nats.get_or_create_stream(Config { name, subjects, ..Config::default() }).await?;
            Ok(Self::Nats(Box::new(nats)))
        }
    }

    /// Returns once the broker has the message. It may be told the same id twice, and drops the second.
    async fn publish(&self, id: &str, body: &str) -> Result<(), BoxError> {
        match self {
            Self::Terminal => {}
            #[cfg(feature = "servers")]
            Self::Nats(nats) => {
                let mut headers = async_nats::HeaderMap::new();
                headers.insert("Nats-Msg-Id", id);
                nats.publish_with_headers("anarchon-example.orders", headers, body.to_owned().into()).await?.await?;
            }
        }
        println!("published {id}: {body}");
        Ok(())
    }
}

/// An error leaves the rest in the outbox, for the next slot.
#[anarchon::job(every = "1s", overlap = "skip")]
async fn publish(ctx: Context, State(pool): State<SqlitePool>, State(broker): State<Broker>) -> Result<(), BoxError> {
    let messages: Vec<(String, String)> =
        sqlx::query_as("SELECT id, body FROM outbox ORDER BY rowid").fetch_all(&pool).await?;
    for (id, body) in messages {
        if ctx.cancel_reason().is_some() {
            break; // somebody else goes on
        }
        // In this order: who dies in between publishes it once more, with the same id.
        broker.publish(&id, &body).await?;
        sqlx::query("DELETE FROM outbox WHERE id = ?").bind(&id).execute(&pool).await?;
    }
    Ok(())
}

async fn place_order(pool: &SqlitePool, what: &str) -> Result<(), BoxError> {
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    let order = sqlx::query("INSERT INTO orders (what) VALUES (?)").bind(what).execute(&mut *tx).await?;
    // Unlike any other order's, in any file: the broker remembers it.
    let id = format!("order-{}-{}", order.last_insert_rowid(), anarchon::Token::random());
    sqlx::query("INSERT INTO outbox (id, body) VALUES (?, ?)").bind(id).bind(what).execute(&mut *tx).await?;
    tx.commit().await?;
    println!("ordered {what}");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let broker = Broker::from_env().await?;
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("orders.db").display().to_string();
    let pool = examples::database(&file).await?;
    sqlx::raw_sql(TABLES).execute(&pool).await?;
    let scheduler =
        Scheduler::builder(SqliteBackend::new(&file)).state(pool.clone()).state(broker).registered().start().await?;
    let mut events = scheduler.events();

    for what in ["tea", "coffee", "cocoa"] {
        place_order(&pool, what).await?;
        // Until a run has ended that began after the order.
        let mut left = 1;
        while left > 0 {
            if matches!(events.recv().await?, Event::Finished { .. }) {
                left = sqlx::query_scalar("SELECT count(*) FROM outbox").fetch_one(&pool).await?;
            }
        }
    }
    println!("the outbox is empty");
    scheduler.stop().await?;
    pool.close().await;
    Ok(())
}
