//! sqld, the server of libSQL: SQLite over HTTP.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::process::{OneProcess, Process, folder};
use super::{Port, component};
use crate::store::Server;

/// A sqld with one database, which is empty at first.
#[derive(Debug)]
pub struct Sqld {
    port: Port,
    process: Process,
}

impl Sqld {
    /// A new server, which goes when this does. It starts so fast that nobody need share it.
    ///
    /// # Panics
    /// When it does not start, or is not there and `CI` is set.
    #[must_use]
    pub fn own() -> Option<Self> {
        let name = "sqld";
        let program = component(name)?;
        let (folder, port) = (folder(name), Port::reserve());
        let data = folder.path().join("data");
        let process = Process::new(name, folder, &program, Signal::TERM, Signal::KILL);
        let process = process.arg("--no-welcome").arg("--http-listen-addr").arg(port.address().to_string());
        let mut server = Self { port, process: process.arg("-d").arg(data) };
        server.start();
        Some(server)
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Its process, while it is running.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.process.pid()
    }

    /// Runs a statement, and returns its rows as the server writes them.
    ///
    /// # Panics
    /// When it fails.
    #[must_use]
    pub fn query(&self, sql: &str) -> Value {
        let execute = json!({"type": "execute", "stmt": {"sql": sql}});
        let body = json!({"requests": [execute, {"type": "close"}]}).to_string();
        let text = http(self.address(), "POST /v2/pipeline", &body).expect("an answer");
        let answer: Value = serde_json::from_str(&text).expect("an answer in JSON");
        let result = &answer["results"][0];
        assert_eq!(result["type"], "ok", "`{sql}` failed: {text}");
        result["response"]["result"]["rows"].clone()
    }
}

/// The body of a good answer.
fn http(address: SocketAddr, what: &str, body: &str) -> io::Result<String> {
    let patience = Duration::from_secs(5);
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_read_timeout(Some(patience))?;
    let length = body.len();
    // HTTP/1.0: the answer comes in one piece, and the connection ends after it.
    write!(stream, "{what} HTTP/1.0\r\nhost: {address}\r\ncontent-length: {length}\r\n\r\n{body}")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.split(' ').nth(1) == Some("200") => Ok(body.to_owned()),
        _ => Err(io::Error::other(answer)),
    }
}

impl OneProcess for Sqld {
    fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    fn answers(&self) -> impl Fn() -> Result<(), String> + use<> {
        let address = self.address();
        move || http(address, "GET /health", "").map(drop).map_err(|e| e.to_string())
    }
}
