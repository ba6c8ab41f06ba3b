#[anarchon::job(every = "10x", cron = "0 25 * * *", max_attempts = 0, colour = "red", timezone = "Pari")]
fn notify<T>(_value: T) {}

fn main() {}
