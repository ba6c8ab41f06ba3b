//! What stands between a client and a server: it counts, delays, loses and cuts.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use crate::lab::LONG;

/// Passes TCP connections on to a server, on the loopback device.
///
/// What a client sends until the server answers is one request, however many packets it takes. What the server sends from
/// then on, until the client sends again, is one reply. Both together are a round trip. A server that speaks first, or
/// unasked, makes none; connecting makes as many as the protocol needs, so tests look at the difference.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    connections: HashMap<u64, Connection>,
    accepted: u64,
    requests: u64,
    round_trips: u64,
    fates: BTreeMap<u64, Fate>,
    delay: Duration,
    partitioned: bool,
    over: bool,
}

#[derive(Debug)]
struct Connection {
    client: TcpStream,
    server: TcpStream,
    /// The number of the request that is being sent, or waits for its reply.
    request: Option<u64>,
    /// Nothing from the server is passed any more.
    silent: bool,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    CutBefore,
    CutAfter,
    SwallowReply,
}

impl Connection {
    fn close(&self) {
        // Either end may have closed it already.
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

impl Proxy {
    /// A proxy before a server, which need not be running.
    ///
    /// # Panics
    /// When there is no port for it.
    #[must_use]
    pub fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("a listener has an address");
        let shared = Arc::new(Shared { server, state: Mutex::default(), changed: Condvar::new() });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if accepting.state().over {
                    break;
                }
                let shared = Arc::clone(&accepting);
                thread::spawn(move || shared.connect(client));
            }
        });
        Self { address, shared }
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many round trips there have been, over all connections. A reply that was not passed makes none.
    #[must_use]
    pub fn round_trips(&self) -> u64 {
        self.shared.state().round_trips
    }

    /// How many requests have begun, over all connections.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.shared.state().requests
    }

    /// How many connections there have been.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.shared.state().accepted
    }

    /// How many connections there are.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.state().connections.len()
    }

    /// Waits until so many requests have begun.
    ///
    /// # Panics
    /// When they do not within [`LONG`].
    pub fn wait_requests(&self, requests: u64) {
        let state = self.shared.state();
        let waited = self.shared.changed.wait_timeout_while(state, LONG, |state| state.requests < requests);
        let timeout = waited.expect("no panic while it is held").1;
        assert!(!timeout.timed_out(), "there are no {requests} requests");
    }

    /// Lets the `n`-th request from now on, of which the next one is the first, reach the server, but not its reply the
    /// client: nothing comes from the server on that connection any more, which stays open.
    pub fn swallow_reply(&self, n: u64) {
        self.fate(n, Fate::SwallowReply);
    }

    /// Cuts the connection once the server has replied to the `n`-th request from now on, which the client is not told.
    pub fn cut_after(&self, n: u64) {
        self.fate(n, Fate::CutAfter);
    }

    /// Cuts the connection when the client sends the `n`-th request from now on, which does not reach the server.
    pub fn cut_before(&self, n: u64) {
        self.fate(n, Fate::CutBefore);
    }

    fn fate(&self, n: u64, fate: Fate) {
        let mut state = self.shared.state();
        let request = state.requests + n;
        state.fates.insert(request, fate);
    }

    /// Cuts all connections there are. New ones are passed.
    pub fn cut(&self) {
        self.shared.change(|state| {
            for connection in state.connections.drain().map(|(_, connection)| connection) {
                connection.close();
            }
        });
    }

    /// Delays each reply from now on.
    pub fn delay(&self, delay: Duration) {
        self.shared.change(|state| state.delay = delay);
    }

    /// Passes nothing any more in either direction, not even the end of a connection. New connections are accepted, and
    /// wait like all others.
    pub fn partition(&self) {
        self.shared.change(|state| state.partitioned = true);
    }

    /// Passes all that has been held back, and goes on.
    pub fn heal(&self) {
        self.shared.change(|state| state.partitioned = false);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.change(|state| state.over = true);
        self.cut();
        // It accepts this one, and sees that it is over.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while it is held")
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    /// Waits for the end of a partition.
    fn passing(&self) -> MutexGuard<'_, State> {
        let passing = self.changed.wait_while(self.state(), |state| state.partitioned && !state.over);
        passing.expect("no panic while it is held")
    }

    fn connect(&self, client: TcpStream) {
        let number = {
            let mut state = self.state();
            state.accepted += 1;
            state.accepted
        };
        drop(self.passing());
        // Nobody there: the client is cut.
        let Ok(server) = TcpStream::connect(self.server) else { return };
        let own = || Some((client.try_clone().ok()?, server.try_clone().ok()?));
        let (Some((from_client, to_server)), Some((to_client, from_server))) = (own(), own()) else { return };
        for stream in [&client, &server] {
            stream.set_nodelay(true).expect("a connection that is open");
        }
        {
            let mut state = self.state();
            if state.over {
                return;
            }
            state.connections.insert(number, Connection { client, server, request: None, silent: false });
        }
        thread::scope(|scope| {
            scope.spawn(|| self.requests(number, from_client, to_server));
            scope.spawn(|| self.replies(number, from_server, to_client));
        });
        self.state().connections.remove(&number);
    }

    fn requests(&self, number: u64, mut client: TcpStream, mut server: TcpStream) {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = client.read(&mut bytes) {
            {
                let mut guard = self.passing();
                let state = &mut *guard;
                let Some(connection) = state.connections.get_mut(&number) else { return };
                if connection.request.is_none() {
                    state.requests += 1;
                    connection.request = Some(state.requests);
                    self.changed.notify_all();
                    if state.fates.get(&state.requests) == Some(&Fate::CutBefore) {
                        state.fates.remove(&state.requests);
                        return connection.close();
                    }
                }
            }
            if server.write_all(&bytes[..read]).is_err() {
                break;
            }
        }
        drop(self.passing());
        let _ = server.shutdown(Shutdown::Write);
    }

    fn replies(&self, number: u64, mut server: TcpStream, mut client: TcpStream) {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = server.read(&mut bytes) {
            let mut first = false;
            {
                let mut guard = self.state();
                let state = &mut *guard;
                let Some(connection) = state.connections.get_mut(&number) else { return };
                if let Some(request) = connection.request.take().filter(|_| !connection.silent) {
                    first = true;
                    match state.fates.remove(&request) {
                        Some(Fate::CutAfter) => return connection.close(),
                        Some(Fate::SwallowReply) => connection.silent = true,
                        Some(Fate::CutBefore) | None => {}
                    }
                }
                if connection.silent {
                    continue;
                }
                if first {
                    self.wait_delay(guard);
                }
            }
            {
                let mut state = self.passing();
                if !state.connections.contains_key(&number) {
                    return;
                }
                state.round_trips += u64::from(first);
            }
            if client.write_all(&bytes[..read]).is_err() {
                break;
            }
        }
        drop(self.passing());
        let _ = client.shutdown(Shutdown::Write);
    }

    /// Waits for as long as replies are delayed, which may change meanwhile.
    fn wait_delay(&self, mut state: MutexGuard<'_, State>) {
        let since = Instant::now();
        while let Some(left) = state.delay.checked_sub(since.elapsed()).filter(|left| !left.is_zero()) {
            state = self.changed.wait_timeout(state, left).expect("no panic while it is held").0;
        }
    }
}
