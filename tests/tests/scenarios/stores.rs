//! The stores that every scenario runs on. One whose server is not there is `None`.

use tests::servers::RedisVersion;
use tests::{Lab, Store};

#[expect(clippy::unnecessary_wraps, reason = "others may not be there")]
pub(crate) fn sqlite() -> Option<Lab> {
    Some(Lab::sqlite())
}

pub(crate) fn redis() -> Option<Lab> {
    Store::redis(RedisVersion::Redis8).map(on)
}

pub(crate) fn valkey() -> Option<Lab> {
    Store::redis(RedisVersion::Valkey9).map(on)
}

fn on(store: Store) -> Lab {
    Lab::on(store, tempfile::tempdir().expect("a temporary directory"))
}
