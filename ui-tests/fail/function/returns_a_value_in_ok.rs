#[anarchon::job(every = "1h")]
async fn notify() -> Result<u32, std::io::Error> {
    Ok(7)
}

fn main() {}
