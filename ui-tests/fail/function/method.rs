struct Service;

impl Service {
    #[anarchon::job(every = "1h")]
    async fn notify(&self) {}
}

fn main() {}
