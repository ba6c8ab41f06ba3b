//! A library of jobs, as an application may have one: nothing in it is ever named by the program that links it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anarchon::{Context, State};

/// Counts the runs of [`count`].
pub type Counter = Arc<AtomicU32>;

/// Counts its runs.
#[anarchon::job(every = "1h", name = "library-count")]
pub async fn count(ctx: Context, State(counter): State<Counter>) {
    let _ = ctx.slot();
    counter.fetch_add(1, Ordering::SeqCst);
}

/// Needs a store with leases, though this library cannot know which store there will be.
#[anarchon::job(cron = "0 3 * * *", timezone = "Europe/Berlin", overlap = "skip", max_attempts = 2)]
async fn library_export() -> Result<(), std::io::Error> {
    Ok(())
}

mod private {
    /// A job in a place that nobody else can name.
    #[anarchon::job(every = "10m", offset = "1m")]
    async fn library_sweep() {}
}
