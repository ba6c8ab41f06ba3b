//! Programs to try anarchon with: they are in the folder `examples`, and `cargo run -p examples --example` lists them.
//!
//! Here is only what several of them would otherwise repeat.

use std::time::Duration;

use anarchon::Slot;
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};

/// The application's own connections to a SQLite file, which is made if it is not there. The jobs may be kept in the same
/// file, so writers wait for each other.
///
/// # Errors
/// When the file cannot be opened.
pub async fn database(file: &str) -> sqlx::Result<SqlitePool> {
    let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
    let options = options.journal_mode(SqliteJournalMode::Wal).busy_timeout(Duration::from_secs(20));
    SqlitePool::connect_with(options).await
}

/// Waits for Ctrl-C, or for the SIGTERM that a deployment sends. `anarchon::main!` does so by itself.
///
/// # Errors
/// When signals cannot be received.
pub async fn told_to_stop() -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            pressed = tokio::signal::ctrl_c() => pressed,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}

/// A slot as a time of day in UTC, to be printed.
#[must_use]
pub fn clock(slot: Slot) -> String {
    slot.to_datetime().format("%H:%M:%S").to_string()
}
