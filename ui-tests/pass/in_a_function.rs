anarchon::backend!(anarchon::MemoryBackend);

fn main() {
    #[anarchon::job(every = "1h", overlap = "skip")]
    async fn notify() {}
}
