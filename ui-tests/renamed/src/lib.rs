//! Jobs of a library, in the older edition, where `anarchon` is no name of any crate.
#![forbid(unsafe_code)]

use scheduling::{Context, State};

/// A job that other crates may call too.
#[scheduling::job(every = "1h", overlap = "skip", max_attempts = 2, data = 7, crate = "scheduling")]
pub async fn notify(_context: Context, _pool: State<u8>) -> Result<(), std::io::Error> {
    Ok(())
}

mod nested {
    #[scheduling::job(cron = "0 8 * * *", timezone = "Europe/Paris", catch_up = "10m", crate = "::scheduling")]
    async fn clean() {}
}
