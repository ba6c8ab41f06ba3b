anarchon::backend!(anarchon::ClaimOnlyMemoryBackend);

fn main() {
    #[anarchon::job(every = "1h", overlap = "skip")]
    async fn notify() {}
}
