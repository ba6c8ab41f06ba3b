//! Where the backend is that database, or only the start can tell which one it is. What the crate root calls `Finish` or
//! `Sqlite` does not matter.

use anarchon::{AnyBackend, Scheduler, SqliteBackend};

anarchon::backend!(SqliteBackend);

pub struct Finish;
pub struct Sqlite;

mod jobs {
    use anarchon::{Context, Finish};
    use sqlx::Sqlite;

    #[anarchon::job(every = "1h")]
    pub async fn bill(_context: Context, _finish: Finish<Sqlite>, _again: Finish<sqlx::Sqlite>) {}
}

async fn add(known: &Scheduler<SqliteBackend>, unknown: &Scheduler<AnyBackend>) {
    let _ = known.every("bill", "1h", jobs::bill).add().await;
    let _ = unknown.every("bill", "1h", jobs::bill).add().await;
}

fn main() {
    let _ = (add, Finish, Sqlite);
}
