anarchon::main!(String);
