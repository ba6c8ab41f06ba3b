//! Where tests find a PostgreSQL: each has a schema, or a database, of its own there.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use anarchon::PostgresBackend;
use anarchon::testing::conformance::{Fixture, Transactions};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, PgPool, Row as _, Transaction, raw_sql};
use tests::servers::{Database, PgBouncer, PgBouncerVersion, Postgres, PostgresVersion};

/// A server, or a pooler before one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// A server.
    Direct(PostgresVersion),
    /// A pooler, in transaction mode and with four connections a database.
    Pooled(PgBouncerVersion),
}

pub(crate) const V15: Place = Place::Direct(PostgresVersion::V15);
pub(crate) const V18: Place = Place::Direct(PostgresVersion::V18);
pub(crate) const POOLED_1_18: Place = Place::Pooled(PgBouncerVersion::V1_18);
pub(crate) const POOLED_1_24: Place = Place::Pooled(PgBouncerVersion::V1_24);

impl Place {
    /// A new database, which goes again where the server is a developer's.
    pub(crate) fn database(self) -> Option<Database> {
        static POOLERS: [OnceLock<Option<PgBouncer>>; 2] = [OnceLock::new(), OnceLock::new()];
        match self {
            Self::Direct(version) => Some(Postgres::shared(version)?.database()),
            Self::Pooled(version) => {
                let pooler = &POOLERS[usize::from(version == PgBouncerVersion::V1_24)];
                Some(pooler.get_or_init(|| PgBouncer::own(version)).as_ref()?.database())
            }
        }
    }

    /// A database that is shared by those who ask while somebody has it.
    fn shared_database(self) -> Option<Arc<Database>> {
        static SHARED: [Mutex<Weak<Database>>; 4] = [const { Mutex::new(Weak::new()) }; 4];
        let place = match self {
            Self::Direct(version) => usize::from(version == PostgresVersion::V18),
            Self::Pooled(version) => 2 + usize::from(version == PgBouncerVersion::V1_24),
        };
        let mut shared = SHARED[place].lock().expect("no panic while it is held");
        if let Some(database) = shared.upgrade() {
            return Some(database);
        }
        let database = Arc::new(self.database()?);
        *shared = Arc::downgrade(&database);
        Some(database)
    }

    /// A new schema in a shared database.
    pub(crate) async fn schema(self) -> Schema {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("s{}", MADE.fetch_add(1, Ordering::Relaxed));
        let database = tokio::task::block_in_place(|| self.shared_database());
        if let Some(database) = &database {
            run(database.url(), format!("CREATE SCHEMA {name}")).await;
        }
        Schema { database, name }
    }
}

/// A schema of a test's own.
pub(crate) struct Schema {
    database: Option<Arc<Database>>,
    name: String,
}

impl Schema {
    /// The URL of its database.
    pub(crate) fn url(&self) -> &str {
        self.database.as_ref().expect("a server").url()
    }
}

impl Schema {
    /// The store's tables in it.
    pub(crate) fn table(&self) -> String {
        format!("{}.anarchon_runs", self.name)
    }
}

impl Fixture for Schema {
    type Backend = PostgresBackend;

    async fn backend(&self) -> PostgresBackend {
        PostgresBackend::new(self.url()).table(self.table())
    }

    fn is_there(&self) -> bool {
        self.database.is_some()
    }

    async fn clean_up(&self) {
        run(self.url(), format!("DROP SCHEMA {} CASCADE", self.name)).await;
    }
}

/// Runs statements on a connection of their own.
pub(crate) async fn run(url: &str, sql: impl Into<String>) {
    let mut connection = PgConnection::connect(url).await.expect("a connection");
    connection.execute(raw_sql(AssertSqlSafe(sql.into()))).await.expect("the statements run");
    connection.close().await.expect("a close");
}

/// The number that a statement gives.
pub(crate) async fn number(url: &str, sql: impl Into<String>) -> i64 {
    let mut connection = PgConnection::connect(url).await.expect("a connection");
    let row = connection.fetch_one(raw_sql(AssertSqlSafe(sql.into()))).await.expect("a row");
    row.try_get(0).expect("a number")
}

impl Schema {
    async fn begun(&self, with: &'static str) -> Transaction<'static, sqlx::Postgres> {
        let pool = PgPool::connect(self.url()).await.expect("a pool of the application's");
        pool.begin_with(with).await.expect("a transaction")
    }
}

impl Transactions for Schema {
    type Db = sqlx::Postgres;

    const LOCKS_ROWS: bool = true;

    async fn begin(&self) -> Transaction<'static, sqlx::Postgres> {
        self.begun("BEGIN ISOLATION LEVEL READ COMMITTED").await
    }

    async fn begin_stricter(&self) -> Option<Transaction<'static, sqlx::Postgres>> {
        Some(self.begun("BEGIN ISOLATION LEVEL REPEATABLE READ").await)
    }
}
