use anarchon::{Context, Finish};
use sqlx::Sqlite;

anarchon::main!(anarchon::MemoryBackend);

#[anarchon::job(every = "1h")]
async fn bill(_context: Context, _finish: Finish<Sqlite>) {}
