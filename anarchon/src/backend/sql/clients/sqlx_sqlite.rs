//! SQLite through sqlx: one connection of our own, one call of the connection's thread for a whole batch.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use sqlx::ValueRef as _;
use sqlx::pool::PoolOptions;
use sqlx::sqlite::{
    SqliteArguments, SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteRow, SqliteSynchronous,
};
use sqlx::{Arguments as _, AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _, SqlitePool, TypeInfo as _};
use tokio::sync::Mutex;

use crate::backend::ServerInfo;
use crate::backend::sql::{Row, SqlClient, SqlError, Statement, Value};
use crate::error::BackendErrorKind;

/// How long a call waits for other writers, unless it is set.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How often the switch to the write-ahead log is tried again, which SQLite's busy timeout doesn't cover.
const WAL_RETRY: Duration = Duration::from_millis(20);
/// Rows (and ends of statements) that the connection's thread may be ahead by.
const ROW_BUFFER: usize = 512;
/// The oldest SQLite that has `RETURNING`-era syntax; ours and libSQL's lower bound.
const OLDEST: (u32, u32) = (3, 35);

/// An SQLite database, as the SQL stores need it: by its file, or through a pool of the application.
///
/// A file is opened on a connection of its own, so nothing of it lives on the application's runtime or waits for the
/// application's queries. After an error, and when a call is dropped, that connection is thrown away: SQLite rolls back
/// what it had begun, and the next call opens another.
pub struct SqlxSqlite {
    source: Source,
    busy_timeout: Option<Duration>,
    /// What each new connection runs first.
    session: OnceLock<String>,
    open: Mutex<Open>,
}

/// Where the database is.
enum Source {
    /// A file, or what a URL said of it that cannot be.
    File { options: Box<SqliteConnectOptions>, ours: bool },
    /// A database in memory, which exists only inside the pool that made it.
    Memory(SqlitePool),
    /// The same, to be made by us.
    OwnMemory(Box<SqliteConnectOptions>),
    /// A location that cannot be used.
    Faulty(String),
}

/// What is open.
#[derive(Default)]
enum Open {
    #[default]
    Nothing,
    File(Opened),
    Memory(SqlitePool),
}

/// What a call waits for.
#[derive(Clone, Copy)]
enum Wanted {
    /// All rows, and that all is done: what is committed last is certain only then.
    All,
    /// The first row, which only the last statement returns and nothing that matters comes after. Each thing more that
    /// the connection's thread says wakes who waits for it, which costs more than the statements do.
    First,
}

struct Opened {
    connection: SqliteConnection,
    has_session: bool,
    identity: Option<(u64, u64)>,
}

impl std::fmt::Debug for SqlxSqlite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqlxSqlite").field("place", &self.place()).finish_non_exhaustive()
    }
}

impl SqlxSqlite {
    /// The database at a path, or at a URL that begins with `sqlite:` or `file:`. The file is made when it is missing,
    /// unless the URL sets a `mode`.
    #[must_use]
    pub fn at(location: &str) -> Self {
        let source = match options(location) {
            Ok(options) if in_memory(&options) => Source::OwnMemory(Box::new(options)),
            Ok(options) => Source::File { options: Box::new(options), ours: true },
            Err(fault) => Source::Faulty(fault),
        };
        Self { source, busy_timeout: None, session: OnceLock::new(), open: Mutex::default() }
    }

    /// The database of a pool. Its address is taken, and opened on a connection of our own; only a database in memory,
    /// which has none, is used through the pool itself. The pool is never closed by us.
    #[must_use]
    pub fn from_pool(pool: SqlitePool) -> Self {
        let options = pool.connect_options();
        let source = if in_memory(&options) {
            Source::Memory(pool)
        } else {
            Source::File { options: Box::new(options.as_ref().clone()), ours: false }
        };
        Self { source, busy_timeout: None, session: OnceLock::new(), open: Mutex::default() }
    }

    /// Waits for other writers for so long before a call is answered "busy"; 5 s unless set.
    #[must_use]
    pub fn busy_timeout(self, timeout: Duration) -> Self {
        Self { busy_timeout: Some(timeout), ..self }
    }

    /// Whether the application has a way to the same database.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.source, Source::File { .. } | Source::Memory(_))
    }

    fn path(&self) -> Option<&Path> {
        match &self.source {
            Source::File { options, .. } => Some(options.get_filename()),
            _ => None,
        }
    }

    /// The place, for people.
    fn place(&self) -> String {
        match self.path() {
            Some(path) => std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string(),
            None => "memory".to_owned(),
        }
    }

    fn configured(&self, options: &SqliteConnectOptions, ours: bool) -> SqliteConnectOptions {
        let timeout =
            self.busy_timeout.unwrap_or(BUSY_TIMEOUT).min(Duration::from_millis(i32::MAX.unsigned_abs().into()));
        let options = options.clone().busy_timeout(timeout).row_buffer_size(ROW_BUFFER).disable_statement_logging();
        // Pages of a few hundred jobs stay in memory (16 MiB), and the log is copied back less often than each 4 MiB.
        // Temporary tables are in memory and cannot be rolled back: after an error they go with the connection.
        let options = options
            .pragma("cache_size", "-16384")
            .pragma("wal_autocheckpoint", "4000")
            .pragma("temp_store", "MEMORY")
            .pragma("temp.journal_mode", "OFF");
        if ours { options.journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Normal) } else { options }
    }

    async fn open_file(&self, options: &SqliteConnectOptions, ours: bool) -> Result<Opened, SqlError> {
        let configured = self.configured(options, ours);
        let patience = tokio::time::Instant::now() + self.busy_timeout.unwrap_or(BUSY_TIMEOUT);
        loop {
            match configured.connect().await {
                Ok(connection) => {
                    let identity = identity(options.get_filename());
                    return Ok(Opened { connection, has_session: false, identity });
                }
                Err(error) => {
                    let error = self.classify(error);
                    if error.kind() != BackendErrorKind::Busy || tokio::time::Instant::now() >= patience {
                        return Err(error);
                    }
                    tokio::time::sleep(WAL_RETRY).await;
                }
            }
        }
    }

    /// Runs a text on our own connection. The connection is taken out of its place and put back only when all is well:
    /// if this future is dropped, or fails, the connection goes with it.
    async fn on_file(
        &self,
        options: &SqliteConnectOptions,
        ours: bool,
        sql: String,
        values: Vec<Value>,
        wanted: Wanted,
    ) -> Result<Vec<Row>, SqlError> {
        let mut open = self.open.lock().await;
        let mut opened = match std::mem::take(&mut *open) {
            Open::File(opened) if opened.identity == identity(options.get_filename()) => opened,
            Open::File(_) => {
                let message = format!("{}: the file was replaced or removed; it is opened again", self.place());
                return Err(SqlError::new(BackendErrorKind::Unknown, message));
            }
            _ => self.open_file(options, ours).await?,
        };
        if let Some(session) = self.session.get().filter(|_| !opened.has_session) {
            let made = sqlx::raw_sql(AssertSqlSafe(session.clone())).execute(&mut opened.connection).await;
            made.map_err(|error| self.classify(error))?;
            opened.has_session = true;
        }
        let query = sqlx::query_with(AssertSqlSafe(sql), arguments(values)?);
        let rows = match wanted {
            Wanted::All => query.fetch_all(&mut opened.connection).await,
            Wanted::First => query.fetch_optional(&mut opened.connection).await.map(Vec::from_iter),
        };
        match rows {
            Ok(rows) => {
                *open = Open::File(opened);
                drop(open);
                rows.iter().map(row).collect()
            }
            Err(error) => {
                // What it had begun goes with the connection, and so does a session that stopped half way.
                drop(opened);
                Err(self.classify(error))
            }
        }
    }

    /// The pool that holds a database in memory.
    async fn memory(&self) -> Result<SqlitePool, SqlError> {
        match &self.source {
            Source::Memory(pool) => Ok(pool.clone()),
            Source::OwnMemory(options) => {
                let mut open = self.open.lock().await;
                if let Open::Memory(pool) = &*open {
                    return Ok(pool.clone());
                }
                // One connection that is never given up: with the last one the database would go.
                let pool = PoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
                let pool = pool.connect_with(self.configured(options, false)).await.map_err(|e| self.classify(e))?;
                *open = Open::Memory(pool.clone());
                Ok(pool)
            }
            Source::File { .. } => Err(SqlError::new(BackendErrorKind::Config, "not a database in memory")),
            Source::Faulty(fault) => Err(SqlError::new(BackendErrorKind::Config, fault.as_str())),
        }
    }

    /// Runs statements in a transaction of sqlx's, which rolls back when it is dropped: throwing the connection away
    /// could throw the database away.
    async fn in_memory(&self, statements: Vec<Statement>) -> Result<Vec<Row>, SqlError> {
        let pool = self.memory().await?;
        // A pool that is given up on while it looks whether its connection is alive closes it.
        let connection = tokio::spawn(async move { pool.acquire().await }).await;
        let connection = connection.map_err(|_| SqlError::new(BackendErrorKind::Unknown, "the runtime is stopping"))?;
        let mut connection = connection.map_err(|e| self.classify(e))?;
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.map_err(|e| self.classify(e))?;
        let mut rows = Vec::new();
        for statement in statements {
            let query = sqlx::query_with(AssertSqlSafe(statement.sql), arguments(statement.values)?);
            rows = query.fetch_all(&mut *transaction).await.map_err(|e| self.classify(e))?;
        }
        transaction.commit().await.map_err(|e| self.classify(e))?;
        rows.iter().map(row).collect()
    }

    fn classify(&self, error: sqlx::Error) -> SqlError {
        let at = self.place();
        let code = match &error {
            sqlx::Error::Database(database) => database.code().and_then(|code| code.parse::<u32>().ok()),
            _ => None,
        };
        // The low byte is the primary code.
        let (kind, hint) = match code.map(|code| code & 0xff) {
            Some(5 | 6) => (BackendErrorKind::Busy, "another writer has it"),
            Some(8) => (BackendErrorKind::Config, "the file, or the database, is read-only"),
            Some(11) => (BackendErrorKind::Config, "the database is damaged"),
            Some(13) => (BackendErrorKind::Refused, "the disk is full"),
            Some(14) => (BackendErrorKind::Config, missing_directory(self.path())),
            Some(26) => (BackendErrorKind::Config, "the file is not an SQLite database, or is encrypted"),
            Some(3 | 23) => (BackendErrorKind::Config, "access was denied"),
            Some(9 | 10 | 7) => (BackendErrorKind::Unknown, "the call did not get through"),
            Some(_) => (BackendErrorKind::Refused, "the statement was refused"),
            None => match &error {
                sqlx::Error::PoolTimedOut => (BackendErrorKind::Busy, "the pool has no connection free"),
                sqlx::Error::PoolClosed => (BackendErrorKind::Config, "the application has closed its pool"),
                sqlx::Error::Configuration(_) => (BackendErrorKind::Config, "the options do not fit"),
                sqlx::Error::Encode(_) | sqlx::Error::Decode(_) => (BackendErrorKind::Refused, "a value does not fit"),
                _ => (BackendErrorKind::Unknown, "the connection was lost"),
            },
        };
        SqlError::new(kind, format!("{at}: {hint}: {error}")).with_source(error)
    }

    async fn run(&self, statements: Vec<Statement>, transaction: bool, wanted: Wanted) -> Result<Vec<Row>, SqlError> {
        match &self.source {
            Source::File { options, ours } => {
                let (sql, values) = joined(statements, transaction);
                self.on_file(options, *ours, sql, values, wanted).await
            }
            _ => self.in_memory(statements).await,
        }
    }
}

impl SqlClient for SqlxSqlite {
    async fn query(&self, statement: Statement) -> Result<Vec<Row>, SqlError> {
        self.run(vec![statement], false, Wanted::All).await
    }

    async fn batch(&self, statements: Vec<Statement>) -> Result<Vec<Row>, SqlError> {
        self.run(statements, true, Wanted::All).await
    }

    /// A database in memory is used through a pool, whose connections are not ours to prepare.
    fn on_connect(&self, statements: Vec<Statement>) -> bool {
        let file = matches!(self.source, Source::File { .. });
        file && self.session.set(joined(statements, false).0).is_ok()
    }

    async fn session(&self, statements: Vec<Statement>) -> Result<Option<Row>, SqlError> {
        Ok(self.run(statements, false, Wanted::First).await?.pop())
    }

    fn not_made(&self) -> Option<String> {
        let missing = self.path().filter(|path| !path.exists())?;
        missing
            .parent()
            .is_none_or(|parent| parent.as_os_str().is_empty() || parent.is_dir())
            .then(|| format!("SQLite; there is no file yet at {}", self.place()))
    }

    async fn server(&self) -> Result<ServerInfo, SqlError> {
        let ask = |sql: &'static str| self.query(Statement::new(sql, Vec::new()));
        let rows = ask("SELECT sqlite_version()").await?;
        let version = rows.first().map(|row| row.text(0)).transpose()?.unwrap_or_default().to_owned();
        if parse_version(&version).is_none_or(|found| found < OLDEST) {
            let (major, minor) = OLDEST;
            let message = format!("SQLite {major}.{minor} or newer is needed; this program is linked with {version:?}");
            return Err(SqlError::new(BackendErrorKind::Config, message));
        }
        let mut info = ServerInfo::new(format!("SQLite {version} at {}", self.place()));
        let Source::File { .. } = self.source else {
            info.warnings.push(match self.source {
                Source::Memory(_) => "an SQLite database in memory is used through the application's own pool: only \
                     schedulers on that pool see it, it is gone with the pool, and a pool that is busy delays \
                     heartbeats, which can cost leases"
                    .to_owned(),
                _ => "an SQLite database in memory: only this scheduler sees it, and it is gone when that stops"
                    .to_owned(),
            });
            return Ok(info);
        };
        // A file that cannot be written is opened all the same, for reading.
        ask("BEGIN IMMEDIATE; CREATE TABLE IF NOT EXISTS anarchon_may_write (x); ROLLBACK").await?;
        let rows = ask("PRAGMA journal_mode").await?;
        let mode = rows.first().map(|row| row.text(0)).transpose()?.unwrap_or_default();
        if !mode.eq_ignore_ascii_case("wal") {
            info.warnings.push(format!(
                "{}: the journal mode is `{mode}`, so readers and writers block each other; `wal` is better",
                self.place()
            ));
        }
        Ok(info)
    }

    async fn close(&self) {
        let open = std::mem::take(&mut *self.open.lock().await);
        match open {
            // Only what is ours is here. Errors at the end change nothing: the file is as the last commit left it.
            Open::File(opened) => drop(opened.connection.close().await),
            Open::Memory(pool) => pool.close().await,
            Open::Nothing => {}
        }
    }
}

/// One text of all statements, and all their values in order.
fn joined(statements: Vec<Statement>, transaction: bool) -> (String, Vec<Value>) {
    let mut sql = String::with_capacity(statements.iter().map(|s| s.sql.len() + 2).sum::<usize>() + 32);
    let mut values = Vec::with_capacity(statements.iter().map(|s| s.values.len()).sum());
    if transaction {
        sql.push_str("BEGIN IMMEDIATE; ");
    }
    for statement in statements {
        sql.push_str(&statement.sql);
        sql.push_str("; ");
        values.extend(statement.values);
    }
    if transaction {
        sql.push_str("COMMIT");
    }
    (sql, values)
}

fn arguments(values: Vec<Value>) -> Result<SqliteArguments, SqlError> {
    let mut arguments = SqliteArguments::default();
    arguments.reserve(values.len(), 0);
    for value in values {
        match value {
            Value::Int(int) => arguments.add(int),
            Value::Text(text) => arguments.add(text),
            Value::Null => arguments.add(None::<i64>),
        }
        .map_err(|error| SqlError::new(BackendErrorKind::Refused, format!("a value cannot be sent: {error}")))?;
    }
    Ok(arguments)
}

fn row(row: &SqliteRow) -> Result<Row, SqlError> {
    let column = |index: usize| -> Result<Value, sqlx::Error> {
        let raw = row.try_get_raw(index)?;
        if raw.is_null() {
            return Ok(Value::Null);
        }
        if raw.type_info().name() == "INTEGER" {
            return row.try_get_unchecked(index).map(Value::Int);
        }
        row.try_get_unchecked(index).map(Value::Text)
    };
    let columns = (0..row.len()).map(column).collect::<Result<Vec<_>, _>>();
    columns
        .map(Row::new)
        .map_err(|error| SqlError::new(BackendErrorKind::Config, format!("an answer could not be read: {error}")))
}

/// Which file is at the path: writes to one that was removed or replaced would be seen by nobody.
#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

#[cfg(not(unix))]
fn identity(_path: &Path) -> Option<(u64, u64)> {
    None
}

fn missing_directory(path: Option<&Path>) -> &'static str {
    let parent = path.and_then(Path::parent).map_or_else(PathBuf::new, Path::to_owned);
    if parent.as_os_str().is_empty() || parent.is_dir() {
        "the file cannot be opened or made (is it missing, or the directory not writable?)"
    } else {
        "its directory does not exist"
    }
}

fn parse_version(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(str::parse::<u32>);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

/// Whether the options mean a database in memory, which sqlx has no accessor for.
fn in_memory(options: &SqliteConnectOptions) -> bool {
    let path = options.get_filename();
    let shown = format!("{:?}", options.clone().filename("x"));
    shown.starts_with("SqliteConnectOptions { filename: \"x\", in_memory: true")
        || path == Path::new(":memory:")
        || path.as_os_str().is_empty()
}

fn options(location: &str) -> Result<SqliteConnectOptions, String> {
    if location == ":memory:" {
        return options("sqlite::memory:");
    }
    let rest = location.strip_prefix("sqlite:").or_else(|| location.strip_prefix("file:"));
    let Some(rest) = rest else {
        if location.is_empty() {
            return Err("the path of the database is empty".to_owned());
        }
        return Ok(SqliteConnectOptions::new().filename(location).create_if_missing(true));
    };
    let options: SqliteConnectOptions = format!("sqlite:{rest}").parse().map_err(|e: sqlx::Error| e.to_string())?;
    let query = rest.split_once('?').map(|(_, query)| query).unwrap_or_default();
    let mode = query.split('&').any(|pair| pair.starts_with("mode="));
    let memory = options.clone().filename("x");
    if options.get_filename().as_os_str().is_empty() && !in_memory(&memory) {
        return Err("the URL names no file; write `sqlite:./anarchon.db`".to_owned());
    }
    Ok(if mode { options } else { options.create_if_missing(true) })
}
