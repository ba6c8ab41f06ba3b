//! A store of somebody else's, as a crate that knows nothing but what is public: a client and a dialect for a database
//! that anarchon has never heard of, and a scheme for its URLs. A program that links it says `use tests_driver as _;`.

use anarchon::BackendErrorKind;
use anarchon::backend::sql::{Column, Row, SqlBackend, SqlClient, SqlDialect, SqlError, Statement, Value, hex};
use anarchon::catalogue::{DRIVERS, Driver, leases, linkme};
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, Row as _, SqliteConnection};
use tokio::sync::Mutex;

#[allow(unsafe_code)]
#[linkme::distributed_slice(DRIVERS)]
#[linkme(crate = anarchon::catalogue::linkme)]
static MINE: Driver = Driver {
    schemes: &["mine"],
    feature: None,
    open: |url| match url.strip_prefix("mine:") {
        Some(path) if !path.is_empty() => Ok(leases(SqlBackend::new("mine", MyClient::at(path), MyDialect))),
        _ => Err("it names no file; write `mine:some/path`".to_owned()),
    },
};

/// The file, and the connection to it unless a call has it, or lost it.
struct MyClient {
    path: String,
    connection: Mutex<Option<SqliteConnection>>,
}

impl MyClient {
    fn at(path: &str) -> Self {
        Self { path: path.to_owned(), connection: Mutex::new(None) }
    }

    async fn send(&self, sql: String) -> Result<Vec<Row>, SqlError> {
        let mut place = self.connection.lock().await;
        let mut connection = match place.take() {
            Some(connection) => connection,
            None => SqliteConnection::connect(&format!("sqlite:{}?mode=rwc", self.path)).await.map_err(error)?,
        };
        // After an error, or if this is dropped, the connection is gone, and what it began with it.
        let rows = connection.fetch_all(sqlx::raw_sql(AssertSqlSafe(sql))).await.map_err(error)?;
        *place = Some(connection);
        Ok(rows.iter().map(row).collect())
    }
}

impl SqlClient for MyClient {
    async fn query(&self, statement: Statement) -> Result<Vec<Row>, SqlError> {
        self.send(MyDialect.text_of(&statement)).await
    }

    async fn batch(&self, statements: Vec<Statement>) -> Result<Vec<Row>, SqlError> {
        let texts: Vec<String> = statements.iter().map(|statement| MyDialect.text_of(statement)).collect();
        self.send(format!("BEGIN IMMEDIATE; {}; COMMIT", texts.join("; "))).await
    }
}

fn error(error: sqlx::Error) -> SqlError {
    let kind = match &error {
        sqlx::Error::Database(error) if error.code().is_some_and(|code| code == "5") => BackendErrorKind::Busy,
        sqlx::Error::Database(_) => BackendErrorKind::Refused,
        _ => BackendErrorKind::Unknown,
    };
    SqlError::new(kind, error.to_string())
}

fn row(row: &SqliteRow) -> Row {
    let column = |index| match row.try_get_unchecked::<Option<String>, usize>(index) {
        Ok(Some(text)) => Value::Text(text),
        _ => Value::Null,
    };
    Row::new((0..row.len()).map(column).collect())
}

/// What this database says in its own way; everything else has a default.
struct MyDialect;

impl SqlDialect for MyDialect {
    fn column(&self, column: Column) -> &str {
        match column {
            Column::Int => "INTEGER",
            _ => "TEXT",
        }
    }

    fn clock(&self) -> &str {
        "CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)"
    }

    fn literal(&self, value: &Value) -> String {
        match value {
            Value::Int(i64::MIN) => format!("({} - 1)", i64::MIN + 1),
            Value::Int(int) => format!("({int})"),
            Value::Text(text) => format!("CAST(x'{}' AS TEXT)", hex(text)),
            _ => "NULL".to_owned(),
        }
    }

    fn greatest(&self, a: &str, b: &str) -> String {
        format!("max({a}, {b})")
    }

    fn least(&self, a: &str, b: &str) -> String {
        format!("min({a}, {b})")
    }

    fn row_list(&self, columns: &[Column], rows: usize) -> String {
        let row = format!("({})", vec!["?"; columns.len()].join(", "));
        format!("(VALUES {})", vec![row.as_str(); rows].join(", "))
    }

    fn waits_for_locks(&self) -> bool {
        false
    }
}
