use anarchon::Finish;

anarchon::backend!(anarchon::ClaimOnlyMemoryBackend);

mod jobs {
    #[anarchon::job(every = "1h", overlap = "skip")]
    async fn bill(_finish: super::Finish<sqlx::Sqlite>) {}
}

fn main() {}
