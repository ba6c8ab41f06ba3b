anarchon::backend!(anarchon::MemoryBackend);

mod jobs {
    pub(crate) mod mail {
        #[anarchon::job(every = "1h", overlap = "skip")]
        async fn notify() {}
    }

    #[anarchon::job(every = "1h", catch_up = "10m")]
    pub(super) async fn clean() {}
}

fn main() {}
