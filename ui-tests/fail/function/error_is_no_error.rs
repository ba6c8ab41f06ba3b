struct Failure;

#[anarchon::job(every = "1h")]
async fn notify() -> Result<(), Failure> {
    Err(Failure)
}

fn main() {}
