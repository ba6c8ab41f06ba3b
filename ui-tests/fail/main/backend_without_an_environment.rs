anarchon::main!(anarchon::AnyClaimBackend);
