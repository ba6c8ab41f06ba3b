//! A scheduler in a web service.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use tests::LONG;

use crate::program::{Program, slot};

fn start(store: &str) -> (Program, String) {
    let mut program = Program::start_with("axum_service", |command| {
        command.arg("127.0.0.1:0").env("ANARCHON_STORE", store);
    });
    let line = program.wait_line("listens on http://");
    let address = line.trim_start_matches("listens on http://").to_owned();
    (program, address)
}

/// What is answered, head and body.
fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(LONG)).expect("a time-out");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn axum_service_tells_that_it_is_ready_and_hands_its_run_over_when_it_is_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let (mut first, address) = start(&store);
    let ready = get(&address, "/ready");
    assert!(ready.starts_with("HTTP/1.1 200 OK") && ready.contains("Running, 1 jobs"), "{ready}");
    assert!(get(&address, "/live").starts_with("HTTP/1.1 200 OK"));
    assert!(get(&address, "/").contains("counted 0 times"));

    let began = first.wait_line("attempt 1 counts");
    first.terminate();
    let lines = first.end();
    for line in [&format!("{}  ends early: stop", slot(&began)), "the scheduler has stopped", "the service has stopped"]
    {
        assert!(lines.iter().any(|printed| printed == line), "no {line:?}: {lines:#?}");
    }

    let (mut second, address) = start(&store);
    let again = second.wait_line("counts");
    assert_eq!(again, format!("{}  attempt 2 counts", slot(&began)));
    second.wait_line("has counted");
    assert!(!get(&address, "/").contains("counted 0 times"));
    second.terminate();
    second.end();
}
