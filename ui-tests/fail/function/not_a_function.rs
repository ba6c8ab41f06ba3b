#[anarchon::job(every = "1h")]
struct Notify;

fn main() {}
