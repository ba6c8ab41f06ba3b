anarchon::main! {
    lease: "15s",
    lease: "20s",
}
