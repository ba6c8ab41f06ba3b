anarchon::backend!(anarchon::ClaimOnlyMemoryBackend);

mod jobs {
    pub mod mail {
        #[anarchon::job(every = "1h", overlap = "skip")]
        async fn notify() {}
    }
}

fn main() {}
