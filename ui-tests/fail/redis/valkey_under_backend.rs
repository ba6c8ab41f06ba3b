use anarchon::ValkeyBackend;
use anarchon::backend::redis::StreamId;

anarchon::backend!(ValkeyBackend<StreamId>);

mod jobs {
    #[anarchon::job(every = "1h", overlap = "skip", max_attempts = 2)]
    async fn notify() {}
}

fn main() {}
