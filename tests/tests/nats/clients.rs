//! Ways to the server: passwords, and what the application has already.

use anarchon::backend::Backend as _;
use anarchon::{BackendErrorKind, LeaseBackend as _, NatsBackend, NatsKvBackend};
use tests::backends::{claim, won};
use tests::servers::{Nats, NatsVersion};

use crate::{block_on, client, now, own_servers};

#[test]
fn a_server_with_a_password_lets_in_who_knows_it_and_no_message_shows_it() {
    let settings = "authorization { user: app, password: \"hush/hush\" }";
    for version in NatsVersion::ALL {
        let Some(server) = Nats::start_with(version, settings) else { return };
        block_on(async {
            let at = |who: &str| format!("nats://{who}{}", server.address());
            let store = NatsKvBackend::new(at("app:hush%2Fhush@"));
            store.connect().await.expect("a connection");
            assert!(won(&store.claim(&claim("a", now(&store).await - 1000)).await.expect("an answer").value));
            for who in ["app:hush-hash@", "hush-hash@", ""] {
                let store = NatsKvBackend::new(at(who));
                let error = store.connect().await.expect_err("it is wrong");
                assert_eq!(error.kind(), BackendErrorKind::Config, "{error}");
                assert!(!format!("{error} {error:?} {store:?}").contains("hush"), "{error:?} {store:?}");
            }
        });
    }
}

#[test]
fn a_server_that_is_down_is_told_apart_from_one_that_is_none() {
    block_on(async {
        let down = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port");
        let error = NatsKvBackend::new(down.to_string()).connect().await.expect_err("nobody is there");
        assert_eq!(error.kind(), BackendErrorKind::Unknown, "{error}");
        let error = NatsBackend::new("http://hush@h").connect().await.expect_err("it is no server of ours");
        assert_eq!(error.kind(), BackendErrorKind::Config, "{error}");
        assert!(!error.to_string().contains("hush"), "{error}");
    });
}

#[test]
fn a_connection_of_the_application_is_used_itself_warned_about_and_never_closed() {
    for server in own_servers() {
        block_on(async {
            let theirs = client(&server).await;
            let store = NatsKvBackend::from(theirs.clone());
            let info = store.connect().await.expect("a connection");
            assert!(info.server.starts_with("NATS 2."), "{info:?}");
            assert!(info.warnings[0].contains("is used itself"), "{info:?}");
            assert!(won(&store.claim(&claim("a", now(&store).await - 1000)).await.expect("an answer").value));
            store.close().await;
            let claims = NatsBackend::from(theirs.clone());
            assert_eq!(claims.connect().await.expect("a connection").warnings.len(), 1);
            claims.close().await;
            theirs.flush().await.expect("it is still open");
            assert_eq!(NatsBackend::new(server.url()).connect().await.expect("a connection").warnings.len(), 0);
        });
    }
}
