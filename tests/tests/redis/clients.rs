//! Ways to the server: passwords, sockets, and what the application has already.

use std::time::Duration;

use anarchon::backend::Backend as _;
use anarchon::{AnyBackend, BackendErrorKind, RedisBackend, ValkeyBackend};
use redis::{Client, cmd};
use tests::servers::{Redis, RedisVersion};

use crate::{BOTH, block_on, claim, connected, fence};

#[test]
fn a_server_with_a_password_lets_in_who_knows_it_and_no_message_shows_it() {
    let Some(server) = Redis::own(RedisVersion::Redis8) else { return };
    block_on(async {
        server.ask::<()>(cmd("ACL").arg("SETUSER").arg("app").arg("on").arg(">hush-hush").arg("~cron:*").arg("+@all"));
        server.ask::<()>(
            cmd("ACL").arg("SETUSER").arg("reader").arg("on").arg(">hush-hush").arg("~*").arg("+ping").arg("+time"),
        );
        let at = |who: &str| format!("redis://{who}@{}", server.address());
        let store = connected(&at("app:hush-hush")).await;
        fence(&store, &claim(&store, "a", 1000).await).await;
        for who in ["app:hush-hash", "nobody:hush-hush"] {
            let store = RedisBackend::new(at(who));
            let error = store.connect().await.expect_err("it is wrong");
            assert_eq!(error.kind(), BackendErrorKind::Config, "{error}");
            assert!(!format!("{error} {error:?} {store:?}").contains("hush"), "{error:?} {store:?}");
        }
        let reader = RedisBackend::new(at("reader:hush-hush"));
        let info = reader.connect().await.expect("it may connect");
        assert!(info.warnings[0].contains("may not ask"), "{info:?}");
        let error = crate::outcome(&reader, &claim(&reader, "b", 1000).await).await.expect_err("it may not claim");
        assert_eq!(error.kind(), BackendErrorKind::Config, "{error}");
        assert!(!format!("{error:?}").contains("hush"));
    });
}

#[test]
fn a_server_that_wants_a_password_is_told_apart_from_one_that_is_down() {
    let Some(server) = Redis::own(RedisVersion::Valkey9) else { return };
    block_on(async {
        server.ask::<()>(cmd("CONFIG").arg("SET").arg("requirepass").arg("hush-hush"));
        let error = RedisBackend::new(server.url()).connect().await.expect_err("it wants a password");
        assert_eq!(error.kind(), BackendErrorKind::Config, "{error}");
        let down = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port");
        let error = RedisBackend::new(down.to_string()).connect().await.expect_err("nobody is there");
        assert_eq!(error.kind(), BackendErrorKind::Unknown, "{error}");
        let error = RedisBackend::new("http://hush-hush@h").connect().await.expect_err("it is no server of ours");
        assert_eq!(error.kind(), BackendErrorKind::Config, "{error}");
        assert!(!error.to_string().contains("hush"), "{error}");
    });
}

#[test]
fn a_clients_address_is_used_and_a_connection_itself_and_neither_is_closed() {
    for version in BOTH {
        let Some(server) = Redis::own(version) else { return };
        block_on(async {
            let client = Client::open(server.url()).expect("a client");
            let mut theirs = client.get_multiplexed_async_connection().await.expect("a connection");
            let stores = [RedisBackend::from(client), RedisBackend::from_connection(theirs.clone())];
            for (store, warned) in stores.iter().zip([false, true]) {
                let info = store.connect().await.expect("an answer");
                let about = info.warnings.iter().any(|warning| warning.contains("used itself"));
                assert_eq!(about, warned, "{info:?}");
                fence(store, &claim(store, &format!("job-{warned}"), 1000).await).await;
                store.close().await;
            }
            let pong: String = cmd("PING").query_async(&mut theirs).await.expect("it is open");
            assert_eq!(pong, "PONG");
        });
    }
}

#[test]
fn the_connection_is_closed_by_close_and_its_database_is_the_urls() {
    let Some(server) = Redis::own(RedisVersion::Redis8) else { return };
    let clients = || server.ask::<String>(&cmd("CLIENT").arg("LIST").clone()).lines().count();
    block_on(async {
        let before = clients();
        let store = connected(&format!("{}/7", server.url())).await;
        fence(&store, &claim(&store, "a", 1000).await).await;
        assert_eq!(clients(), before + 1);
        let space: String = server.ask(cmd("INFO").arg("keyspace"));
        assert!(space.contains("db7:") && !space.contains("db0:"), "{space}");
        store.close().await;
        let since = std::time::Instant::now();
        while clients() > before {
            assert!(since.elapsed() < tests::LONG, "it is open");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn an_evicting_server_is_warned_about_and_so_is_who_it_is_known() {
    for (version, name) in [(RedisVersion::Redis7, "Redis 7.0"), (RedisVersion::Valkey8, "Valkey 8.")] {
        let Some(server) = Redis::start_with(version, &["--maxmemory-policy", "volatile-lru"]) else { return };
        block_on(async {
            let info = ValkeyBackend::new(server.url()).connect().await.expect("an answer");
            assert!(info.server.starts_with(name), "{info:?}");
            assert!(info.warnings[0].contains("`volatile-lru`"), "{info:?}");
        });
    }
}

#[test]
fn urls_of_all_schemes_and_sockets_lead_to_the_server() {
    let Some(server) = Redis::own(RedisVersion::Redis8) else { return };
    let socket = std::fs::read_link(format!("/proc/{}/cwd", server.pid().expect("it is running")));
    let socket = socket.map(|folder| folder.join("socket"));
    block_on(async {
        let address = server.address();
        let mut urls = vec![format!("redis://{address}"), format!("valkey://{address}/1")];
        urls.extend(socket.map(|path| format!("unix://{}", path.display())));
        for url in urls {
            let store = AnyBackend::connect(&url).expect("a driver");
            let name = if url.starts_with("valkey") { "valkey:lease" } else { "redis:lease" };
            assert_eq!(store.name(), name);
            store.connect().await.expect("a connection");
            assert!(store.clock().await.expect("an answer").is_some(), "by {url}");
        }
    });
}
