use std::error::Error;

#[derive(Debug)]
enum Failure {}

impl std::fmt::Display for Failure {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Ok(())
    }
}

impl Error for Failure {}

type Outcome = Result<(), Failure>;

#[anarchon::job(every = "1h")]
async fn nothing() {}

#[anarchon::job(every = "1h")]
async fn unit() -> () {}

#[anarchon::job(every = "1h")]
async fn own_error() -> Result<(), Failure> {
    Ok(())
}

#[anarchon::job(every = "1h")]
async fn alias() -> Outcome {
    Ok(())
}

#[anarchon::job(every = "1h")]
async fn boxed() -> Result<(), Box<dyn Error + Send + Sync>> {
    Err("a text is an error too")?;
    Ok(())
}

#[anarchon::job(every = "1h")]
async fn text() -> Result<(), String> {
    Ok(())
}

fn main() {}
