use std::time::Duration;

use anarchon::{MemoryBackend, State};

async fn connected() -> Result<MemoryBackend, std::io::Error> {
    Ok(MemoryBackend::new())
}

#[derive(Clone)]
struct Pool;

const ZONE: &str = "Asia/Tokyo";

anarchon::main! {
    backend: MemoryBackend = connected().await?,
    state: Pool,
    state: "7".parse::<u32>()?,
    timezone: ZONE,
    jitter: Duration::ZERO,
    max_late: "1m",
    timeout: "5m",
    history_size: 10,
    history_ttl: "30d",
    lease: "10s",
    heartbeat: "2s",
    watch: "1s",
    stop_grace: "1s",
    instance_id: format!("worker-{}", std::process::id()),
    forget_after: "40d",
}

#[anarchon::job(every = "100ms", overlap = "skip")]
async fn leave(State(_pool): State<Pool>, State(seven): State<u32>) {
    std::process::exit(i32::from(seven != 7));
}
