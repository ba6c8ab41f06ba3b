use anarchon::ValkeyBackend;
use anarchon::backend::redis::Idmp;

anarchon::backend!(ValkeyBackend<Idmp>);

fn main() {}
