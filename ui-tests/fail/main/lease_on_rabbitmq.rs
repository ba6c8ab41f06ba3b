anarchon::main! {
    backend: anarchon::RabbitMqBackend,
    lease: "15s",
}
