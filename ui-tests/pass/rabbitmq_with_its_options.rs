use std::time::Duration;

use anarchon::{RabbitMqBackend, Scheduler};

anarchon::backend!(RabbitMqBackend);

#[anarchon::job(every = "1h", name = "nightly-export_2", jitter = "2s", max_late = "1m", timeout = "5m", history_size = 10)]
async fn notify() {}

fn main() {
    let backend = RabbitMqBackend::new("amqp://mq.internal").prefix("billing.").slot_ttl(Duration::from_secs(600));
    let _ = Scheduler::builder(backend).max_late("30s").registered();
}
