//! libSQL beside the memory store, in random plays.

use anarchon::Backend as _;
use anarchon::backend::SqliteDialect;
use anarchon::backend::sql::SqlBackend;
use anarchon::backend::sql::clients::LibsqlClient;
use anarchon::testing::differential::{HAND_CLOCK, HandClocked as _, play};
use tests::servers::Sqld;

#[tokio::test]
async fn libsql_answers_as_the_rules_do() {
    if Sqld::own().is_none() {
        return;
    }
    let servers = std::sync::Mutex::new(Vec::<Sqld>::new());
    play(1, 6_000, async |_| {
        let server = Sqld::own().expect("a sqld");
        let dialect = SqliteDialect::new().without_sessions().with_clock(HAND_CLOCK);
        let store = SqlBackend::new("libsql", LibsqlClient::at(&server.url(), "", dialect.clone()), dialect);
        servers.lock().expect("no panic").push(server);
        store.connect().await.expect("a connection");
        store.set_clock(0).await;
        store
    })
    .await;
}
