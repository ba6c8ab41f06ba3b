anarchon::main! {
    backend: anarchon::ClaimOnlyMemoryBackend,
    jitter: "0s",
    max_late: "1m",
}

#[anarchon::job(every = "100ms")]
async fn leave() {
    std::process::exit(0);
}
