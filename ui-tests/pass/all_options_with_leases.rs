use anarchon::{Data, MemoryBackend};

anarchon::backend!(MemoryBackend);

#[anarchon::job(
    cron = "0 8 * * *",
    dialect = "unix",
    timezone = "Europe/Paris",
    jitter = "2s",
    max_late = "1m",
    timeout = "5m",
    data = "north",
    history_size = 10,
    history_ttl = "30d",
    overlap = "allow",
    max_attempts = 2,
    retry_failed = "10s",
    catch_up = "30m",
    takeover_within = "2h",
    name = "nightly export",
    crate = "anarchon",
)]
async fn export(_region: Data<&'static str>) {}

fn main() {}
