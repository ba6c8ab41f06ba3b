anarchon::backend!(anarchon::RabbitMqBackend);

#[anarchon::job(every = "1h")]
async fn größe() {}

fn main() {}
