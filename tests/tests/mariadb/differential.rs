//! MariaDB beside the memory store, in random plays.

use anarchon::Backend as _;
use anarchon::backend::MySqlDialect;
use anarchon::backend::sql::SqlBackend;
use anarchon::backend::sql::clients::SqlxMySql;
use anarchon::testing::differential::{HAND_CLOCK, HandClocked as _, play};
use tests::servers::{Database, MariaDb};

#[tokio::test]
async fn mariadb_answers_as_the_rules_do() {
    let Some(server) = MariaDb::shared() else { return };
    let databases = std::sync::Mutex::new(Vec::<Database>::new());
    play(1, 6_000, async |_| {
        let database = server.database();
        let dialect = MySqlDialect::new().with_clock(HAND_CLOCK);
        let store = SqlBackend::new("mysql", SqlxMySql::at(database.url(), dialect.clone()), dialect);
        databases.lock().expect("no panic").push(database);
        store.connect().await.expect("a connection");
        store.set_clock(0).await;
        store
    })
    .await;
}
