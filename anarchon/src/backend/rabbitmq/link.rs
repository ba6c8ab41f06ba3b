//! A connection and its channels: made when they are needed, and made anew when they broke, were used up, or a call got
//! no answer.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::{self, BoxFuture, FutureExt as _};
use lapin::options::ConfirmSelectOptions;
use lapin::{Channel, Connection};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::address::Address;
use super::error::Failure;

/// How long a call may take, with the channel that it may need. A cluster without a majority never answers.
pub(super) const CALL: Duration = Duration::from_secs(3);

/// How long a connection is believed in on which calls get no answer: a broker that is merely slow would be slowed down
/// further by new ones.
const SILENCE: Duration = Duration::from_secs(5);

/// How long it may take to connect and to log in. Calls do not wait so long, but an attempt is not given up for that: a broker
/// that has just come up may have many to let in.
const CONNECT: Duration = Duration::from_secs(30);

/// The longest pause before another attempt, after some that failed.
const PAUSE: Duration = Duration::from_secs(2);

/// How many calls are under way at once, each on a channel of its own: an answer that is an error closes the channel.
const AT_ONCE: usize = 16;

/// How many channels a connection is used for, or half of what it allows if that is less. The client never gets back the
/// number of a channel that the broker closed, and would in the end answer new calls with the errors of old ones.
const CHANNELS: u16 = 1000;

/// How many calls a channel is used for: the client remembers all queues that were declared on it.
const CALLS: u32 = 256;

/// The way to the broker.
#[derive(Debug)]
pub(super) struct Link {
    shared: Arc<Shared>,
    calls: Semaphore,
}

#[derive(Debug)]
struct Shared {
    address: Address,
    /// What the connection is called in the broker's lists.
    name: &'static str,
    /// Whether the broker confirms what is published.
    confirms: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    wire: Option<Arc<Wire>>,
    /// A connection that is being made, for all who wait for one.
    attempt: Option<(Attempt, AbortHandle)>,
    /// How many attempts have failed, one after the other.
    failed: u32,
}

type Attempt = future::Shared<BoxFuture<'static, Result<Arc<Wire>, Failure>>>;

/// One connection.
#[derive(Debug)]
struct Wire {
    connection: Connection,
    idle: Mutex<Vec<Used>>,
    opened: AtomicU32,
    /// When the first of the calls was sent that have had no answer, and none was heard since.
    silent: Mutex<Option<Instant>>,
}

/// A channel, and how many calls it was used for.
#[derive(Debug)]
struct Used {
    channel: Channel,
    calls: u32,
}

/// A call that is under way. If it is dropped before its answer came, its channel is of no more use; nor is the
/// connection, if nothing at all was heard on it for a while.
struct UnderWay<'a> {
    shared: &'a Shared,
    wire: Arc<Wire>,
    sent: Instant,
    answered: bool,
}

impl UnderWay<'_> {
    fn answered(&mut self) {
        self.answered = true;
        *lock(&self.wire.silent) = None;
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.answered {
            let since = *lock(&self.wire.silent).get_or_insert(self.sent);
            if since.elapsed() >= SILENCE {
                self.shared.discard(&self.wire);
            }
        }
    }
}

impl Link {
    pub(super) fn new(address: Address, name: &'static str, confirms: bool) -> Self {
        let shared = Shared { address, name, confirms, state: Mutex::default() };
        Self { shared: Arc::new(shared), calls: Semaphore::new(AT_ONCE) }
    }

    pub(super) fn address(&self) -> &Address {
        &self.shared.address
    }

    /// Whether the broker has said that it takes no messages for now.
    pub(super) fn is_blocked(&self) -> bool {
        lock(&self.shared.state).wire.as_ref().is_some_and(|wire| wire.connection.status().blocked())
    }

    /// Makes a call on a channel that no other call has, and once more on a new connection if the old one turns out to
    /// be broken: every call may reach the broker twice.
    pub(super) async fn call<T, F>(&self, call: impl Fn(Channel) -> F + Sync) -> Result<T, Failure>
    where
        F: Future<Output = lapin::Result<T>> + Send,
        T: Send,
    {
        // It is never closed.
        let _permit = self.calls.acquire().await;
        match self.try_call(&call).await {
            Err(Failure::Broken(_)) => self.try_call(&call).await,
            answer => answer,
        }
    }

    async fn try_call<T, F>(&self, call: &(impl Fn(Channel) -> F + Sync)) -> Result<T, Failure>
    where
        F: Future<Output = lapin::Result<T>> + Send,
        T: Send,
    {
        let sent = Instant::now();
        let (wire, answer) = loop {
            let wire = self.shared.wire().await?;
            let mut under_way = UnderWay { shared: &self.shared, wire: Arc::clone(&wire), sent, answered: false };
            let answer = tokio::time::timeout(CALL, async {
                let Some(used) = self.shared.channel(&wire).await? else { return Ok(None) };
                let answer = call(used.channel.clone()).await.map_err(Failure::of);
                Ok(Some((answer, used)))
            });
            match answer.await {
                Ok(Ok(Some((answer, used)))) => {
                    if !matches!(answer, Err(Failure::Broken(_))) {
                        under_way.answered();
                    }
                    if answer.is_ok() && used.calls < CALLS {
                        lock(&wire.idle).push(Used { calls: used.calls + 1, ..used });
                    }
                    break (wire, answer);
                }
                // Its channels are used up, and it has been left for another one.
                Ok(Ok(None)) => under_way.answered(),
                Ok(Err(broken)) => break (wire, Err(broken)),
                Err(_late) => return Err(Failure::Silent),
            }
        };
        if matches!(answer, Err(Failure::Broken(_))) {
            self.shared.discard(&wire);
        }
        answer
    }

    /// How many channels the connection allows; 0 is any number.
    pub(super) async fn channels(&self) -> Result<u16, Failure> {
        Ok(self.shared.wire().await?.connection.configuration().channel_max())
    }

    /// Closes the connection.
    pub(super) async fn close(&self) {
        let State { wire, attempt, .. } = std::mem::take(&mut *lock(&self.shared.state));
        if let Some((_, task)) = attempt {
            task.abort();
        }
        if let Some(wire) = wire {
            // It closes by itself, too, once nobody has it any more.
            let _ = tokio::time::timeout(CALL / 3, wire.connection.close(200, "OK".into())).await;
        }
    }
}

impl Shared {
    /// A channel that no call has, unless the connection has had as many as it may.
    async fn channel(&self, wire: &Arc<Wire>) -> Result<Option<Used>, Failure> {
        let idle = || {
            let mut idle = lock(&wire.idle);
            std::iter::from_fn(|| idle.pop()).find(|used| used.channel.status().connected())
        };
        if let Some(used) = idle() {
            return Ok(Some(used));
        }
        if wire.opened.fetch_add(1, Ordering::Relaxed) >= most(wire.connection.configuration().channel_max()) {
            // It is closed when its last call has ended.
            self.discard(wire);
            return Ok(None);
        }
        // What goes wrong here is never taken for an answer to the call.
        let channel = wire.connection.create_channel().await.map_err(Failure::Broken)?;
        if self.confirms {
            channel.confirm_select(ConfirmSelectOptions::default()).await.map_err(Failure::Broken)?;
        }
        Ok(Some(Used { channel, calls: 0 }))
    }

    /// The connection there is, or a new one.
    async fn wire(self: &Arc<Self>) -> Result<Arc<Wire>, Failure> {
        let attempt = {
            let mut state = lock(&self.state);
            if let Some(wire) = state.wire.as_ref().filter(|wire| wire.connection.status().connected()) {
                return Ok(Arc::clone(wire));
            }
            if state.attempt.is_none() {
                let task = tokio::spawn(Arc::clone(self).connect(pause(state.failed)));
                let abort = task.abort_handle();
                let gone = |_| Err(Failure::Broken(std::io::Error::from(std::io::ErrorKind::Interrupted).into()));
                let attempt: BoxFuture<'static, _> = Box::pin(task.map(move |ended| ended.unwrap_or_else(gone)));
                state.attempt = Some((attempt.shared(), abort));
            }
            match &state.attempt {
                Some((attempt, _)) => attempt.clone(),
                None => return Err(Failure::Silent),
            }
        };
        tokio::time::timeout(CALL, attempt).await.unwrap_or(Err(Failure::Silent))
    }

    /// Makes a connection, however long those who wait for it have the patience to.
    async fn connect(self: Arc<Self>, pause: Duration) -> Result<Arc<Wire>, Failure> {
        tokio::time::sleep(pause).await;
        let connected = match tokio::time::timeout(CONNECT, self.address.connect(self.name)).await {
            Ok(connected) => connected.map_err(Failure::Unreachable),
            Err(_late) => Err(Failure::Silent),
        };
        let wire = connected.map(|connection| {
            Arc::new(Wire { connection, idle: Mutex::default(), opened: AtomicU32::new(0), silent: Mutex::default() })
        });
        let mut state = lock(&self.state);
        state.attempt = None;
        match &wire {
            Ok(wire) => {
                state.failed = 0;
                state.wire = Some(Arc::clone(wire));
            }
            Err(_) => state.failed = state.failed.saturating_add(1),
        }
        drop(state);
        wire
    }

    fn discard(&self, wire: &Arc<Wire>) {
        let mut state = lock(&self.state);
        if state.wire.as_ref().is_some_and(|current| Arc::ptr_eq(current, wire)) {
            state.wire = None;
        }
    }
}

/// The pause before an attempt: none before the first, then longer and longer.
fn pause(failed: u32) -> Duration {
    match failed {
        0 => Duration::ZERO,
        failed => (Duration::from_millis(50) * (1 << failed.min(6))).min(PAUSE),
    }
}

fn most(channel_max: u16) -> u32 {
    let allowed = if channel_max == 0 { u16::MAX } else { channel_max };
    u32::from(CHANNELS.min(allowed / 2).max(1))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
