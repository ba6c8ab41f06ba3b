#[anarchon::job(every = "1h")]
async fn twice(context: anarchon::Context) {
    let _ = context;
}

#[anarchon::job(every = "1h", name = "answer")]
async fn answer() -> Result<(), std::fmt::Error> {
    Err(std::fmt::Error)
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    assert!(answer().await.is_err());
    let _as_a_value: fn(anarchon::Context) -> _ = twice;
}
