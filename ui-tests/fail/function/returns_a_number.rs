#[anarchon::job(every = "1h")]
async fn notify() -> u32 {
    7
}

fn main() {}
