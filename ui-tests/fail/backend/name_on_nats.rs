anarchon::main!(anarchon::NatsBackend);

#[anarchon::job(every = "1h", name = "nightly export")]
async fn export() {}

#[anarchon::job(every = "1h", name = "nightly-export_2")]
async fn export_2() {}
