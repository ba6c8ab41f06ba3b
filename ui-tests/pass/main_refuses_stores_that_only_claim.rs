//! A program that names no store might have jobs that need leases, so it takes no store without.

use std::process::{Command, exit};

use anarchon::MemoryBackend;
use anarchon::catalogue::{self, DRIVERS, Driver};

#[catalogue::linkme::distributed_slice(DRIVERS)]
#[linkme(crate = anarchon::catalogue::linkme)]
static MEMORY: Driver =
    Driver { schemes: &["sqlite"], feature: None, open: |_| Ok(catalogue::leases(MemoryBackend::new())) };

anarchon::main!();

/// Starts this program again, with other stores.
#[anarchon::job(every = "100ms", overlap = "skip")]
async fn start_with_others() {
    for (url, parts) in [
        ("nats://u:hush@127.0.0.1:1", ["`nats:`", "`nats` only claims", "main!(NatsBackend)", "`nats-kv:`"]),
        ("amqp://u:hush@127.0.0.1:1", ["`amqp:`", "`rabbitmq` only claims", "main!(RabbitMqBackend)", "no leases"]),
    ] {
        let program = std::env::current_exe().unwrap_or_else(|_| exit(2));
        let output = Command::new(program).env("ANARCHON_STORE", url).output().unwrap_or_else(|_| exit(3));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let told = ["ANARCHON_STORE"].iter().chain(&parts).all(|part| said.contains(part));
        if output.status.code() != Some(1) || !told || said.contains("hush") {
            eprintln!("{url} ends with {}, saying: {said}", output.status);
            exit(4);
        }
    }
    exit(0);
}
