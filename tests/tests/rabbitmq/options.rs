//! What is refused, and where; and what the application has.

use std::time::Duration;

use anarchon::run::SlotOutcome;
use anarchon::{
    AnyBackend, AnyClaimBackend, Backend as _, BackendErrorKind, Error, RabbitMqBackend, Scheduler, SchedulerBuilder,
};
use tests::Proxy;
use tests::servers::{RabbitMq, RabbitMqVersion};

use crate::{at, block_on, claim, connected, persistently, until};

async fn nothing() {}

fn scheduler(server: &RabbitMq) -> SchedulerBuilder<RabbitMqBackend> {
    Scheduler::builder(at(server))
}

#[test]
fn a_name_that_is_no_part_of_a_queues_name_is_refused_when_the_job_is_added() {
    let Some(server) = RabbitMq::shared(RabbitMqVersion::V4) else { return };
    block_on(async {
        let scheduler = scheduler(server).start().await.expect("a start");
        for name in ["nightly export", "a.b", "größe", "a/b"] {
            let error = scheduler.every(name, "1h", nothing).add().await.expect_err("refused");
            assert!(matches!(&error, Error::JobOption { option: "name", .. }), "{error:?}");
            let text = error.to_string();
            assert!(text.contains(name) && text.contains("letters, digits, `_` and `-`"), "{text}");
            assert!(text.contains("options.rs:"), "{text}");
        }
        scheduler.every("nightly-export_2", "1h", nothing).add().await.expect("a job");
        scheduler.stop().await.expect("a stop");
    });
}

#[test]
fn jitter_and_max_late_must_be_shorter_than_slot_ttl_when_the_job_is_added() {
    let Some(server) = RabbitMq::shared(RabbitMqVersion::V4) else { return };
    block_on(async {
        let backend = at(server).slot_ttl(Duration::from_secs(60));
        let scheduler = Scheduler::builder(backend).max_late("30s").start().await.expect("a start");
        for (jitter, max_late, fits) in [("10s", "49s", true), ("10s", "50s", false), ("1s", "2m", false)] {
            let job = scheduler.every(format!("job-{max_late}"), "1h", nothing).jitter(jitter).max_late(max_late);
            match job.add().await {
                Ok(_) => assert!(fits, "{jitter} and {max_late}"),
                Err(error) => {
                    assert!(!fits, "{error}");
                    assert!(matches!(&error, Error::JobOption { option: "max_late", .. }), "{error:?}");
                    assert!(error.to_string().contains("backend `rabbitmq` remembers"), "{error}");
                }
            }
        }
        scheduler.stop().await.expect("a stop");
    });
}

#[test]
fn settings_out_of_their_bounds_are_errors_of_the_start() {
    block_on(async {
        let minute = Duration::from_secs(60);
        for (backend, option) in [
            (RabbitMqBackend::default().slot_ttl(Duration::from_millis(999)), "slot_ttl"),
            (RabbitMqBackend::default().slot_ttl(minute * 60 * 24 * 50), "slot_ttl"),
            (RabbitMqBackend::default().prefix(""), "prefix"),
            (RabbitMqBackend::default().prefix("amq.cron."), "prefix"),
            (RabbitMqBackend::new("http://u:secret@h"), "http"),
            (RabbitMqBackend::new("amqp://u:secret@h:port"), "URL"),
        ] {
            let error = backend.connect().await.expect_err(option);
            assert_eq!(error.kind(), BackendErrorKind::Config, "{error}");
            assert!(error.to_string().contains(option) && !error.to_string().contains("secret"), "{error}");
        }
    });
}

#[test]
fn whom_the_broker_does_not_let_in_is_told_so_without_the_password() {
    for version in RabbitMqVersion::ALL {
        let Some(server) = RabbitMq::shared(version) else { return };
        block_on(async {
            let address = server.address();
            for (url, told) in [
                (format!("amqp://guest:secret@{address}"), "user name or password"),
                (format!("amqp://guest:guest@{address}/nowhere"), "nowhere"),
            ] {
                let backend = RabbitMqBackend::new(&url);
                let error = backend.connect().await.expect_err("no way in");
                assert_eq!(error.kind(), BackendErrorKind::Config, "{version:?}: {error}");
                assert!(error.to_string().contains(told), "{version:?}: {error}");
                assert!(!error.to_string().contains("secret") && !format!("{backend:?} {error:?}").contains("secret"));
            }
        });
    }
}

#[test]
fn what_is_no_broker_or_is_not_there_is_told() {
    let Some(redis) = tests::servers::Redis::shared(tests::servers::RedisVersion::Redis7) else { return };
    block_on(async {
        let error = RabbitMqBackend::new("127.0.0.1:1").connect().await.expect_err("nobody is there");
        assert_eq!(error.kind(), BackendErrorKind::Unknown, "{error}");
        let error = RabbitMqBackend::new(redis.address().to_string()).connect().await.expect_err("another server");
        assert!(error.to_string().starts_with("backend `rabbitmq`"), "{error}");
    });
}

/// The client would connect without, and send the password for all to read.
#[cfg(not(feature = "tls"))]
#[test]
fn without_tls_compiled_in_an_encrypted_address_is_refused_before_anything_is_sent() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("amqps://user:secret@{}", listener.local_addr().expect("an address"));
    block_on(async {
        let error = RabbitMqBackend::new(url).connect().await.expect_err("no TLS");
        assert_eq!(error.kind(), BackendErrorKind::Config, "{error}");
        assert!(error.to_string().contains("`tls`") && !error.to_string().contains("secret"), "{error}");
    });
    let (mut stream, _) = listener.accept().expect("it has connected");
    let mut sent = Vec::new();
    std::io::Read::read_to_end(&mut stream, &mut sent).expect("it has closed");
    assert!(sent.is_empty(), "{sent:?}");
}

#[test]
fn a_user_that_may_not_declare_is_refused_at_start() {
    let Some(server) = RabbitMq::shared(RabbitMqVersion::V4) else { return };
    server.ctl(&["add_user", "reader", "secret"]);
    server.ctl(&["set_permissions", "reader", "", ".*", ".*"]);
    block_on(async {
        let url = format!("amqp://reader:secret@{}", server.address());
        let error = RabbitMqBackend::new(url).connect().await.expect_err("it may not");
        assert_eq!(error.kind(), BackendErrorKind::Config, "{error}");
        assert!(
            error.to_string().contains("does not let this user") && !error.to_string().contains("secret"),
            "{error}"
        );
    });
}

#[test]
fn by_its_url_it_is_a_store_without_leases() {
    for url in ["amqp://localhost", "amqps://localhost"] {
        let store = AnyClaimBackend::connect(url).expect("a driver");
        assert_eq!(store.name(), "rabbitmq");
        let error = AnyBackend::connect(url).expect_err("it holds no leases").to_string();
        assert!(error.contains("`rabbitmq` only claims"), "{error}");
    }
}

#[test]
fn an_applications_address_is_used_and_what_was_opened_is_closed() {
    let Some(server) = RabbitMq::shared(RabbitMqVersion::V4) else { return };
    let proxy = Proxy::before(server.address());
    block_on(async {
        let uri: lapin::uri::AMQPUri = server.url_through(proxy.address()).parse().expect("a URI");
        let own = lapin::Connection::connect_uri(uri.clone(), lapin::ConnectionProperties::default()).await;
        let own = own.expect("a connection of the application");
        let store = connected(RabbitMqBackend::from_uri(uri).prefix(RabbitMq::prefix())).await;
        assert_eq!(persistently(&store, &claim("own", 100)).await, SlotOutcome::Won);
        assert_eq!(proxy.connections(), 3);
        store.close().await;
        until("ours are closed", async || proxy.connections() == 1).await;
        own.create_channel().await.expect("the application's still works");
    });
}
