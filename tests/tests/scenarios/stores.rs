//! The stores that every scenario runs on. One whose server is not there is `None`.

use tests::servers::{NatsVersion, RedisVersion};
use tests::{Lab, Store};

fn lab(store: Option<Store>) -> Option<Lab> {
    Some(Lab::on(store?, tempfile::tempdir().expect("a directory")))
}

#[expect(clippy::unnecessary_wraps, reason = "others may not be there")]
pub(crate) fn sqlite() -> Option<Lab> {
    Some(Lab::sqlite())
}

pub(crate) fn postgres() -> Option<Lab> {
    lab(Store::postgres(tests::servers::PostgresVersion::V18))
}

pub(crate) fn own_postgres() -> Option<Lab> {
    lab(Store::own_postgres(tests::servers::PostgresVersion::V15))
}

pub(crate) fn pgbouncer() -> Option<Lab> {
    lab(Store::pgbouncer(tests::servers::PgBouncerVersion::V1_24))
}

pub(crate) fn mariadb() -> Option<Lab> {
    lab(Store::mariadb())
}

pub(crate) fn own_mariadb() -> Option<Lab> {
    lab(Store::own_mariadb())
}

pub(crate) fn libsql() -> Option<Lab> {
    lab(Store::libsql())
}

pub(crate) fn own_libsql() -> Option<Lab> {
    libsql()
}

pub(crate) fn nats() -> Option<Lab> {
    lab(Store::nats(NatsVersion::Nats215))
}

pub(crate) fn own_nats() -> Option<Lab> {
    lab(Store::own_nats(NatsVersion::Nats29))
}

pub(crate) fn redis() -> Option<Lab> {
    lab(Store::redis(RedisVersion::Redis8))
}

pub(crate) fn valkey() -> Option<Lab> {
    lab(Store::redis(RedisVersion::Valkey9))
}
