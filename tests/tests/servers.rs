//! The servers that tests run on do what tests expect of them, and so does the proxy.

#![cfg(unix)]
#![allow(clippy::expect_used, reason = "helpers of tests fail as tests do")]

use std::fmt::Display;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use lapin::BasicProperties;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use serde_json::json;
use sqlx::{
    AssertSqlSafe, Connection as _, Executor as _, MySqlConnection, PgConnection, Row as _, SqlSafeStr, raw_sql,
};
use tests::servers::{
    MariaDb, Nats, NatsVersion, PgBouncer, PgBouncerVersion, Postgres, PostgresVersion, RabbitMq, RabbitMqVersion, Sqld,
};
use tests::{LONG, Proxy, Server, Store};

/// How long a test listens where there must be nothing to hear.
const SOON: Duration = Duration::from_millis(300);

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

/// The first value that a statement returns on a connection of its own, by the simple protocol.
async fn ask_postgres(url: &str, sql: impl SqlSafeStr) -> Result<i32, sqlx::Error> {
    let mut connection = PgConnection::connect(url).await?;
    connection.fetch_one(raw_sql(sql)).await?.try_get(0)
}

/// The same on MariaDB.
async fn ask_mariadb(url: &str, sql: impl SqlSafeStr) -> Result<i32, sqlx::Error> {
    let mut connection = MySqlConnection::connect(url).await?;
    connection.fetch_one(raw_sql(sql)).await?.try_get(0)
}

fn wait_until(what: &str, is: impl Fn() -> bool) {
    let since = Instant::now();
    while !is() {
        assert!(since.elapsed() < LONG, "not within {LONG:?}: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

fn refuses(address: SocketAddr) -> bool {
    TcpStream::connect(address).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused)
}

/// The folder of a server, if the system shows it: servers work in it, or in a folder of it.
fn folder_of(pid: u32) -> Option<PathBuf> {
    let folder = std::fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    let is = |path: &&Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("anarchon-"));
    Some(folder.ancestors().find(is).expect("it works in its folder").to_owned())
}

/// It keeps what it was told when it is killed and stopped, and answers nothing while it is frozen.
fn keeps_and_freezes(server: &mut dyn Server, address: SocketAddr, ask: &dyn Fn(Duration) -> Result<i32, String>) {
    assert_eq!(ask(LONG), Ok(7));
    server.kill();
    assert!(refuses(address), "it is there after a kill");
    server.start();
    assert_eq!(ask(LONG), Ok(7), "after a kill");
    server.freeze();
    assert_eq!(ask(SOON), Err("silence".to_owned()), "while it is frozen");
    server.thaw();
    assert_eq!(ask(LONG), Ok(7), "after a freeze");
    server.stop();
    assert!(refuses(address), "it is there after a stop");
    server.start();
    assert_eq!(ask(LONG), Ok(7), "after a stop");
    server.freeze();
    server.kill();
    server.start();
    assert_eq!(ask(LONG), Ok(7), "after a kill while it was frozen");
}

fn within<E: Display>(patience: Duration, asked: impl Future<Output = Result<i32, E>>) -> Result<i32, String> {
    block_on(async { tokio::time::timeout(patience, asked).await })
        .map_err(|_| "silence".to_owned())?
        .map_err(|e| e.to_string())
}

/// Its process and its folder are gone with it.
fn leaves_nothing<S>(server: S, address: SocketAddr, pid: Option<u32>) {
    let folder = pid.and_then(folder_of);
    drop(server);
    assert!(refuses(address), "it is still there");
    assert!(folder.as_ref().is_none_or(|folder| !folder.exists()), "its folder is still there: {folder:?}");
    let process = format!("/proc/{}", pid.expect("it was running"));
    assert!(!Path::new(&process).exists(), "{process} is still there");
}

fn postgres_lives(version: PostgresVersion, number: i32) {
    let Some(mut server) = Postgres::own(version) else { return };
    let database = server.database();
    let url = database.url();
    let version = block_on(ask_postgres(url, "select current_setting('server_version_num')::int / 10000"));
    assert_eq!(version.expect("a version"), number);
    block_on(async {
        let mut connection = PgConnection::connect(url).await.expect("a connection");
        connection.execute("create table kept (n int)").await.expect("a table");
        connection.execute("insert into kept values (7)").await.expect("a row");
    });
    let address = server.address();
    keeps_and_freezes(&mut server, address, &|patience| within(patience, ask_postgres(url, "select n from kept")));
    let pid = server.pid();
    leaves_nothing(server, address, pid);
}

#[test]
fn postgres_15_lives_dies_and_lives_again() {
    postgres_lives(PostgresVersion::V15, 15);
}

#[test]
fn postgres_18_lives_dies_and_lives_again() {
    postgres_lives(PostgresVersion::V18, 18);
}

#[test]
fn mariadb_lives_dies_and_lives_again() {
    let Some(mut server) = MariaDb::own() else { return };
    let database = server.database();
    let url = database.url();
    let version = block_on(ask_mariadb(url, "select cast(regexp_substr(version(), '^[0-9]+') as int)"));
    assert_eq!(version.expect("a version"), 10);
    block_on(async {
        let mut connection = MySqlConnection::connect(url).await.expect("a connection");
        connection.execute("create table kept (n int)").await.expect("a table");
        connection.execute("insert into kept values (7)").await.expect("a row");
    });
    let address = server.address();
    keeps_and_freezes(&mut server, address, &|patience| within(patience, ask_mariadb(url, "select n from kept")));
    let pid = server.pid();
    leaves_nothing(server, address, pid);
}

#[test]
fn sqld_lives_dies_and_lives_again() {
    let Some(mut server) = Sqld::own() else { return };
    let address = server.address();
    let _ = server.query("create table kept (n int)");
    let _ = server.query("insert into kept values (7)");
    let kept = json!([[{"type": "integer", "value": "7"}]]);
    assert_eq!(server.query("select n from kept"), kept);
    server.kill();
    assert!(refuses(address), "it is there after a kill");
    server.start();
    assert_eq!(server.query("select n from kept"), kept, "after a kill");
    server.stop();
    assert!(refuses(address), "it is there after a stop");
    server.start();
    assert_eq!(server.query("select n from kept"), kept, "after a stop");
    let pid = server.pid();
    leaves_nothing(server, address, pid);
}

/// How many messages a queue holds.
async fn ask_rabbitmq(url: &str) -> Result<i32, lapin::Error> {
    let connection = lapin::Connection::connect(url, lapin::ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let queue = channel.queue_declare("kept".into(), passive, FieldTable::default()).await?;
    Ok(i32::try_from(queue.message_count()).unwrap_or(i32::MAX))
}

fn rabbitmq_lives(version: RabbitMqVersion) {
    let Some(mut server) = RabbitMq::own(version) else { return };
    let url = server.url();
    block_on(async {
        let connection = lapin::Connection::connect(&url, lapin::ConnectionProperties::default()).await;
        let channel = connection.expect("a connection").create_channel().await.expect("a channel");
        channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        channel.queue_declare("kept".into(), durable, FieldTable::default()).await.expect("a queue");
        for _ in 0..7 {
            let on_disk = BasicProperties::default().with_delivery_mode(2);
            let published =
                channel.basic_publish("".into(), "kept".into(), BasicPublishOptions::default(), b"", on_disk);
            published.await.expect("a message").await.expect("its confirm");
        }
    });
    let address = server.address();
    keeps_and_freezes(&mut server, address, &|patience| within(patience, ask_rabbitmq(&url)));
    let pid = server.pid();
    leaves_nothing(server, address, pid);
}

#[test]
fn rabbitmq_3_lives_dies_and_lives_again() {
    rabbitmq_lives(RabbitMqVersion::V3);
}

#[test]
fn rabbitmq_4_lives_dies_and_lives_again() {
    rabbitmq_lives(RabbitMqVersion::V4);
}

/// How many messages a stream holds.
async fn ask_nats(url: &str) -> Result<i32, String> {
    let client = async_nats::connect(url).await.map_err(|e| e.to_string())?;
    let answer = client.request("$JS.API.STREAM.INFO.kept", "".into()).await.map_err(|e| e.to_string())?;
    let info: serde_json::Value = serde_json::from_slice(&answer.payload).map_err(|e| e.to_string())?;
    info["state"]["messages"].as_i64().and_then(|n| i32::try_from(n).ok()).ok_or_else(|| info.to_string())
}

fn nats_lives(version: NatsVersion) {
    let Some(mut server) = Nats::own(version) else { return };
    let url = server.url();
    block_on(async {
        let client = async_nats::connect(&url).await.expect("a connection");
        let stream = r#"{"name":"kept","subjects":["kept"],"storage":"file","retention":"limits"}"#;
        client.request("$JS.API.STREAM.CREATE.kept", stream.into()).await.expect("a stream");
        for _ in 0..7 {
            client.request("kept", "".into()).await.expect("a receipt");
        }
    });
    let address = server.address();
    keeps_and_freezes(&mut server, address, &|patience| within(patience, ask_nats(&url)));
    let pid = server.pid();
    leaves_nothing(server, address, pid);
}

#[test]
fn nats_2_9_lives_dies_and_lives_again() {
    nats_lives(NatsVersion::Nats29);
}

#[test]
fn nats_2_15_lives_dies_and_lives_again() {
    nats_lives(NatsVersion::Nats215);
}

#[test]
fn pgbouncers_pass_queries_and_come_again() {
    for version in PgBouncerVersion::ALL {
        let Some(mut server) = PgBouncer::own(version) else { return };
        let database = server.database();
        assert_eq!(block_on(ask_postgres(database.url(), "select 7")).expect("an answer"), 7, "{version:?}");
        server.kill();
        assert!(refuses(server.address()), "it is there after a kill");
        server.start();
        assert_eq!(block_on(ask_postgres(database.url(), "select 7")).expect("an answer"), 7, "{version:?}");
        let (address, pid) = (server.address(), server.pid());
        leaves_nothing(server, address, pid);
    }
}

#[test]
fn tests_share_a_postgres_and_have_databases_of_their_own() {
    let version = PostgresVersion::V15;
    let (Some(a), Some(b)) = (Store::postgres(version), Store::postgres(version)) else { return };
    assert_ne!(a.url(), b.url());
    for store in [&a, &b] {
        let made = ask_postgres(store.url(), "create table one (n int); select 1");
        assert_eq!(block_on(made).expect("a table of this name in each"), 1);
    }
}

#[test]
fn tests_share_a_mariadb_and_have_databases_of_their_own() {
    let (Some(a), Some(b)) = (Store::mariadb(), Store::mariadb()) else { return };
    assert_ne!(a.url(), b.url());
    for store in [&a, &b] {
        let made = ask_mariadb(store.url(), "create table one (n int); select 1");
        assert_eq!(block_on(made).expect("a table of this name in each"), 1);
    }
}

/// Runs one test of this file in a program of its own.
fn program(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a test has a file"));
    command.args(["--exact", "--nocapture", test]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_server_ends_with_its_program_however_that_ends() {
    const HOLDS: &str = "ANARCHON_TEST_HOLDS_A_SERVER";
    static SQLD: OnceLock<Option<Sqld>> = OnceLock::new();
    if let Ok(server) = std::env::var(HOLDS) {
        let postgres = || Postgres::shared(PostgresVersion::V15).map(|server| (server.address(), server.pid()));
        let sqld = || SQLD.get_or_init(Sqld::own).as_ref().map(|server| (server.address(), server.pid()));
        let Some((address, pid)) = (if server == "postgres" { postgres() } else { sqld() }) else { return };
        println!("\n{address} {}", pid.expect("it is running"));
        // Until the end of the input.
        io::stdin().read_to_string(&mut String::new()).expect("an input");
        return;
    }
    for (server, killed) in [("postgres", true), ("sqld", false)] {
        let mut command = program("a_server_ends_with_its_program_however_that_ends");
        let mut child = command.env(HOLDS, server).env_remove("ANARCHON_TEST_POSTGRES_URL").spawn().expect("a program");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let told = lines.map_while(Result::ok).find_map(|line| {
            let (address, pid) = line.split_once(' ')?;
            Some((address.parse::<SocketAddr>().ok()?, pid.parse().ok()?))
        });
        let Some((address, pid)) = told else {
            assert!(child.wait().expect("a child").success(), "it started no server, and did not skip it either");
            return;
        };
        let folder = folder_of(pid);
        assert!(!refuses(address), "it is not there");
        if killed {
            child.kill().expect("a child");
        }
        // Which also ends its input.
        child.wait().expect("a child");
        wait_until("the end of the server", || refuses(address));
        wait_until("the end of its folder", || folder.as_deref().is_none_or(|folder| !folder.exists()));
    }
}

#[test]
fn tests_on_a_server_of_the_developers_leave_no_databases_there() {
    let Some(server) = Postgres::shared(PostgresVersion::V15) else { return };
    let mut command = program("tests_share_a_postgres_and_have_databases_of_their_own");
    let child =
        command.env("ANARCHON_TEST_POSTGRES_URL", server.url()).env("ANARCHON_SERVICES", "/nonexistent").spawn();
    let child = child.expect("a program");
    let left = format!("select count(*)::int from pg_database where datname like 'anarchon\\_{}\\_%'", child.id());
    let output = child.wait_with_output().expect("a child");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !told.contains("SKIPPED"), "{told}");
    assert_eq!(block_on(ask_postgres(server.url(), AssertSqlSafe(left))).expect("an answer"), 0);
}

#[test]
fn a_server_that_is_not_there_is_told_and_fails_where_it_must() {
    let run = |ci: Option<&str>| -> Output {
        let mut command = program("sqld_lives_dies_and_lives_again");
        command.env("ANARCHON_SERVICES", "/nonexistent").env_remove("CI").envs(ci.map(|ci| ("CI", ci)));
        command.output().expect("a program")
    };
    let (here, there) = (run(None), run(Some("true")));
    let told = String::from_utf8_lossy(&here.stderr);
    assert!(
        here.status.success() && told.contains("SKIPPED: sqld_lives_dies_and_lives_again: `sqld` is not in"),
        "{told}"
    );
    let told = String::from_utf8_lossy(&there.stderr);
    assert!(!there.status.success() && told.contains("`tests/services sqld` fetches it"), "{told}");
}

/// A server that answers each line by `ok`.
fn line_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut answers = stream.try_clone().expect("a second handle");
                for _ in BufReader::new(stream).lines().map_while(Result::ok) {
                    let _ = answers.write_all(b"ok\n");
                }
            });
        }
    });
    address
}

struct LineClient(BufReader<TcpStream>);

impl LineClient {
    fn connect(proxy: &Proxy) -> Self {
        let stream = TcpStream::connect(proxy.address()).expect("the proxy accepts");
        stream.set_read_timeout(Some(LONG)).expect("a timeout");
        Self(BufReader::new(stream))
    }

    fn send(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).expect("the connection is open");
    }

    /// The answer; nothing at the end of the connection.
    fn receive(&mut self) -> String {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Err(e) if e.kind() != io::ErrorKind::ConnectionReset => panic!("no answer, and no end: {e}"),
            _ => line,
        }
    }

    fn ask(&mut self) -> String {
        self.send("how\n");
        self.receive()
    }

    fn hears_nothing(&mut self) {
        self.0.get_mut().set_read_timeout(Some(SOON)).expect("a timeout");
        let heard = self.0.read_line(&mut String::new());
        let silence = heard.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock);
        assert!(silence, "there is something to hear: {heard:?}");
        self.0.get_mut().set_read_timeout(Some(LONG)).expect("a timeout");
    }
}

#[test]
fn a_proxy_counts_round_trips_not_packets() {
    let proxy = Proxy::before(line_server());
    let (mut a, mut b) = (LineClient::connect(&proxy), LineClient::connect(&proxy));
    assert_eq!(a.ask(), "ok\n");
    assert_eq!((proxy.requests(), proxy.round_trips()), (1, 1));
    b.send("ho");
    proxy.wait_requests(2);
    assert_eq!((proxy.requests(), proxy.round_trips()), (2, 1), "half a request");
    b.send("w\n");
    assert_eq!(b.receive(), "ok\n");
    assert_eq!((proxy.requests(), proxy.round_trips()), (2, 2));
    assert_eq!((a.ask().as_str(), b.ask().as_str()), ("ok\n", "ok\n"));
    assert_eq!((proxy.requests(), proxy.round_trips()), (4, 4));
    assert_eq!((proxy.accepted(), proxy.connections()), (2, 2));
}

#[test]
fn a_proxy_swallows_the_reply_it_is_told_to() {
    let proxy = Proxy::before(line_server());
    let (mut a, mut b) = (LineClient::connect(&proxy), LineClient::connect(&proxy));
    proxy.swallow_reply(2);
    assert_eq!(a.ask(), "ok\n");
    a.send("how\n");
    proxy.wait_requests(2);
    a.hears_nothing();
    assert_eq!((proxy.requests(), proxy.round_trips()), (2, 1));
    assert_eq!(b.ask(), "ok\n", "on another connection");
    a.send("how\n");
    a.hears_nothing();
}

#[test]
fn a_proxy_cuts_before_and_after_the_server_has_acted() {
    let proxy = Proxy::before(line_server());
    for (cut, passed) in [(Proxy::cut_before as fn(&Proxy, u64), 1), (Proxy::cut_after, 1)] {
        let (trips, mut client) = (proxy.round_trips(), LineClient::connect(&proxy));
        cut(&proxy, 2);
        assert_eq!(client.ask(), "ok\n");
        assert_eq!(client.ask(), "", "it is cut");
        assert_eq!(proxy.round_trips(), trips + passed);
    }
    let (mut a, mut b) = (LineClient::connect(&proxy), LineClient::connect(&proxy));
    assert_eq!((a.ask().as_str(), b.ask().as_str()), ("ok\n", "ok\n"));
    proxy.cut();
    assert_eq!((a.receive().as_str(), b.receive().as_str()), ("", ""));
    assert_eq!(LineClient::connect(&proxy).ask(), "ok\n", "a new connection");
}

#[test]
fn a_proxy_delays_replies() {
    let proxy = Proxy::before(line_server());
    let mut client = LineClient::connect(&proxy);
    proxy.delay(SOON);
    let since = Instant::now();
    assert_eq!(client.ask(), "ok\n");
    assert!(since.elapsed() >= SOON);
    proxy.delay(LONG);
    client.send("how\n");
    client.hears_nothing();
    proxy.delay(Duration::ZERO);
    assert_eq!(client.receive(), "ok\n", "a delay that is over ends at once");
}

#[test]
fn a_partition_holds_everything_back_until_it_is_healed() {
    let proxy = Proxy::before(line_server());
    let mut a = LineClient::connect(&proxy);
    assert_eq!(a.ask(), "ok\n");
    proxy.partition();
    let mut b = LineClient::connect(&proxy);
    a.send("how\n");
    b.send("how\n");
    a.hears_nothing();
    b.hears_nothing();
    assert_eq!(proxy.requests(), 1);
    proxy.heal();
    assert_eq!((a.receive().as_str(), b.receive().as_str()), ("ok\n", "ok\n"));
}

#[test]
fn a_proxy_before_a_server_that_is_down_ends_connections() {
    let down = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let proxy = Proxy::before(down);
    assert_eq!(LineClient::connect(&proxy).receive(), "");
}

#[test]
fn a_simple_query_is_one_round_trip_to_postgres() {
    let Some(mut server) = PgBouncer::own(PgBouncerVersion::V1_24) else { return };
    let database = server.database();
    let proxy = Proxy::before(server.address());
    block_on(async {
        let url = database.url_through(proxy.address());
        let mut connection = PgConnection::connect(&url).await.expect("a connection");
        let before = proxy.round_trips();
        connection.execute(raw_sql("select 1; select 2; select 3")).await.expect("an answer");
        assert_eq!(proxy.round_trips() - before, 1);
        proxy.cut_after(1);
        connection.execute(raw_sql("create table made (n int)")).await.expect_err("it is cut");
    });
    // The table is there: it was only the reply that was lost.
    assert_eq!(block_on(ask_postgres(database.url(), "select count(*)::int from made")).expect("an answer"), 0);
    server.stop();
}
