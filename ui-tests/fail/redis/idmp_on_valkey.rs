use anarchon::ValkeyBackend;
use anarchon::backend::redis::Idmp;

fn main() {
    let _ = ValkeyBackend::new("valkey://cache.internal:6379").strategy(Idmp::default());
}
