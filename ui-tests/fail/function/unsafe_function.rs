#[anarchon::job(every = "1h")]
async unsafe fn notify() {}

fn main() {}
