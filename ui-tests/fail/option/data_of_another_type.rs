use anarchon::Data;

#[anarchon::job(every = "1h", data = 7)]
async fn notify(_region: Data<String>) {}

fn main() {}
