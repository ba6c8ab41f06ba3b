#[anarchon::job(every = "1h")]
async fn notify<T: Send>() {}

fn main() {}
