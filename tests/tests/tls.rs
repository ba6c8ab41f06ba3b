//! Encrypted connections to servers whose certificates an authority of the test's own has signed: it is taken at its word,
//! and nobody else is.

#![cfg(unix)]
#![allow(clippy::expect_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use anarchon::run::{Ending, FinishOutcome, SlotClaim, SlotOutcome};
use anarchon::{
    Backend, BackendErrorKind, ClaimBackend as _, LeaseBackend, MySqlBackend, NatsKvBackend, PostgresBackend,
    RabbitMqBackend, RedisBackend, Slot, Token, ValkeyBackend,
};
use async_nats::ConnectOptions;
use lapin::tcp::OwnedTLSConfig;
use redis::{Client, TlsCertificates};
use tests::backends::{answer, claim, finish, instance, job, won};
use tests::servers::{
    Certificates, MariaDb, Nats, NatsVersion, Port, Postgres, PostgresVersion, RabbitMq, RabbitMqVersion, Redis,
    RedisVersion,
};

/// It connects, wins a slot and finishes its run.
async fn works(store: &impl LeaseBackend) {
    answer(async || store.connect().await).await;
    let asked = claim("a", 1000);
    assert!(won(&answer(async || store.claim(&asked).await).await.value));
    let end = finish(&asked, Ending::Done);
    assert!(matches!(answer(async || store.finish(&end).await).await.value, FinishOutcome::Recorded { .. }));
    store.close().await;
}

/// It does not connect, because of a certificate; the password is told to nobody.
async fn distrusts(store: &impl Backend) -> BackendErrorKind {
    let error = tokio::time::timeout(tests::LONG, store.connect()).await.expect("an answer").expect_err("a stranger");
    assert!(error.to_string().contains("certificate") && !error.to_string().contains("secret"), "{error}");
    error.kind()
}

fn pem(file: &str) -> String {
    std::fs::read_to_string(file).expect("a certificate")
}

/// On the version that is built with TLS.
#[tokio::test]
async fn postgres_in_full() {
    let (ours, others) = (Certificates::signed(), Certificates::signed());
    let (certificate, key) = (ours.certificate(), ours.key());
    let settings = ["ssl=on", &format!("ssl_cert_file={certificate}"), &format!("ssl_key_file={key}")];
    let Some(server) = Postgres::start_with(PostgresVersion::V15, &settings) else { return };
    let database = server.database();
    let at = |more: &str| PostgresBackend::new(format!("{}?sslmode=verify-full{more}", database.url()));
    works(&at(&format!("&sslrootcert={}", ours.authority()))).await;
    for stranger in [at(&format!("&sslrootcert={}", others.authority())), at("")] {
        assert_eq!(distrusts(&stranger).await, BackendErrorKind::Config);
    }
}

#[tokio::test]
async fn mariadb_in_full() {
    let (ours, others) = (Certificates::signed(), Certificates::signed());
    let files = [format!("--ssl-cert={}", ours.certificate()), format!("--ssl-key={}", ours.key())];
    let Some(server) = MariaDb::start_with(&[&files[0], &files[1], "--require-secure-transport=ON"]) else { return };
    let database = server.database();
    let at = |options: &str| MySqlBackend::new(format!("{}?ssl-mode={options}", database.url()));
    works(&at(&format!("VERIFY_IDENTITY&ssl-ca={}", ours.authority()))).await;
    for stranger in [at(&format!("VERIFY_IDENTITY&ssl-ca={}", others.authority())), at("VERIFY_IDENTITY")] {
        assert_eq!(distrusts(&stranger).await, BackendErrorKind::Config);
    }
    // Nobody is let in otherwise.
    let error = at("DISABLED").connect().await.expect_err("it is not encrypted");
    assert_eq!(error.kind(), BackendErrorKind::Config, "{error}");
}

#[tokio::test]
async fn redis_and_valkey() {
    let (ours, others) = (Certificates::signed(), Certificates::signed());
    let client = |url: &str, whom: &Certificates| {
        let root_cert = Some(pem(&whom.authority()).into_bytes());
        Client::build_with_tls(url, TlsCertificates { client_tls: None, root_cert }).expect("an address")
    };
    for version in RedisVersion::ALL {
        let port = Port::reserve();
        let (number, certificate, key) = (port.address().port().to_string(), ours.certificate(), ours.key());
        let authority = ours.authority();
        let settings = [
            ["--tls-port", &number],
            ["--tls-cert-file", &certificate],
            ["--tls-key-file", &key],
            ["--tls-ca-cert-file", &authority],
            ["--tls-auth-clients", "no"],
        ];
        let Some(_server) = Redis::start_with(version, settings.as_flattened()) else { return };
        let url = format!("rediss://:secret@localhost:{number}");
        let unnamed = format!("rediss://localhost:{number}");
        if version.scheme() == "redis" {
            works(&RedisBackend::from_client(client(&unnamed, &ours))).await;
            distrusts(&RedisBackend::from_client(client(&url, &others))).await;
            distrusts(&RedisBackend::new(&url)).await;
        } else {
            works(&ValkeyBackend::from_client(client(&unnamed, &ours))).await;
            distrusts(&ValkeyBackend::new(url.replacen("rediss", "valkeys", 1))).await;
        }
    }
}

#[tokio::test]
async fn rabbitmq() {
    let (ours, others) = (Certificates::signed(), Certificates::signed());
    for version in RabbitMqVersion::ALL {
        let port = Port::reserve();
        let settings = format!(
            "listeners.ssl.1 = {}\nssl_options.certfile = {}\nssl_options.keyfile = {}\nssl_options.verify = verify_none\n\
             ssl_options.fail_if_no_peer_cert = false",
            port.address(),
            ours.certificate(),
            ours.key()
        );
        let Some(_server) = RabbitMq::start_with(version, &settings) else { return };
        let url = format!("amqps://guest:guest@localhost:{}", port.address().port());
        let trusting = |whom: &Certificates| {
            let cert_chain = Some(pem(&whom.authority()));
            RabbitMqBackend::new(&url).tls(OwnedTLSConfig { identity: None, cert_chain })
        };
        let store = trusting(&ours);
        answer(async || store.connect().await).await;
        let mut asked = SlotClaim::new(job("a"), Slot::from_ms(tests::wall_ms()), Token::random(), instance("one"));
        asked.limit = Duration::from_secs(3600);
        assert_eq!(answer(async || store.claim(&asked).await).await.value, SlotOutcome::Won);
        store.close().await;
        distrusts(&trusting(&others)).await;
        distrusts(&RabbitMqBackend::new(&url)).await;
    }
}

/// Which needs no feature for it.
#[tokio::test]
async fn nats() {
    let (ours, others) = (Certificates::signed(), Certificates::signed());
    let settings =
        format!("allow_non_tls: true\ntls {{ cert_file: \"{}\", key_file: \"{}\" }}", ours.certificate(), ours.key());
    for version in NatsVersion::ALL {
        let Some(server) = Nats::start_with(version, &settings) else { return };
        let trusting = |whom: &Certificates| {
            let options = ConnectOptions::new().add_root_certificates(whom.authority().into());
            NatsKvBackend::new(format!("tls://localhost:{}", server.address().port())).connect_options(options)
        };
        works(&trusting(&ours)).await;
        distrusts(&trusting(&others)).await;
    }
}
