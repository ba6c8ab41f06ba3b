anarchon::main! {
    backend: anarchon::NatsBackend,
    lease: "15s",
}
