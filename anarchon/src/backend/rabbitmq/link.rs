//! A connection and its channels: made when they are needed, and made anew when they broke, were used up, or a call got
//! no answer.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lapin::options::ConfirmSelectOptions;
use lapin::{Channel, Connection};
use tokio::sync::Semaphore;

use super::address::Address;
use super::error::Failure;

/// How long a call may take, with the channel that it may need. A cluster without a majority never answers.
pub(super) const CALL: Duration = Duration::from_secs(2);

/// How long it may take to connect and to log in.
const CONNECT: Duration = Duration::from_secs(3);

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
    address: Address,
    /// What the connection is called in the broker's lists.
    name: &'static str,
    /// Whether the broker confirms what is published.
    confirms: bool,
    wire: Mutex<Option<Arc<Wire>>>,
    /// Held while a connection is made, so that one is enough for all who wait.
    connecting: tokio::sync::Mutex<()>,
    calls: Semaphore,
}

/// One connection.
#[derive(Debug)]
struct Wire {
    connection: Connection,
    idle: Mutex<Vec<Used>>,
    opened: AtomicU32,
    /// When an answer came last.
    heard: Mutex<Instant>,
}

/// A channel, and how many calls it was used for.
#[derive(Debug)]
struct Used {
    channel: Channel,
    calls: u32,
}

/// A call that is under way. If it is dropped before its answer came, its channel is of no more use; nor is the
/// connection, if nothing at all was heard on it meanwhile.
struct UnderWay<'a> {
    link: &'a Link,
    wire: Arc<Wire>,
    sent: Instant,
    answered: bool,
}

impl UnderWay<'_> {
    fn answered(&mut self) {
        self.answered = true;
        *lock(&self.wire.heard) = Instant::now();
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.answered && *lock(&self.wire.heard) <= self.sent {
            self.link.discard(&self.wire);
        }
    }
}

impl Link {
    pub(super) fn new(address: Address, name: &'static str, confirms: bool) -> Self {
        Self {
            address,
            name,
            confirms,
            wire: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
            calls: Semaphore::new(AT_ONCE),
        }
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// Whether the broker has said that it takes no messages for now.
    pub(super) fn is_blocked(&self) -> bool {
        lock(&self.wire).as_ref().is_some_and(|wire| wire.connection.status().blocked())
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
        let wire = self.wire().await?;
        let mut under_way = self.under_way(&wire);
        let answer = tokio::time::timeout(CALL, async {
            let used = self.channel(&wire).await?;
            let answer = call(used.channel.clone()).await;
            Ok((answer, used))
        });
        let (answer, used) = match answer.await {
            Ok(answer) => answer?,
            Err(_late) => return Err(Failure::Silent),
        };
        match answer.map_err(Failure::of) {
            Ok(answer) => {
                under_way.answered();
                if used.calls < CALLS {
                    lock(&wire.idle).push(Used { calls: used.calls + 1, ..used });
                }
                Ok(answer)
            }
            Err(refused @ Failure::Refused(_)) => {
                under_way.answered();
                Err(refused)
            }
            Err(other) => {
                self.discard(&wire);
                Err(other)
            }
        }
    }

    fn under_way(&self, wire: &Arc<Wire>) -> UnderWay<'_> {
        UnderWay { link: self, wire: Arc::clone(wire), sent: Instant::now(), answered: false }
    }

    async fn channel(&self, wire: &Arc<Wire>) -> Result<Used, Failure> {
        let idle = || {
            let mut idle = lock(&wire.idle);
            std::iter::from_fn(|| idle.pop()).find(|used| used.channel.status().connected())
        };
        match idle() {
            Some(used) => Ok(used),
            None => Ok(Used { channel: self.open(wire).await?, calls: 0 }),
        }
    }

    async fn open(&self, wire: &Arc<Wire>) -> Result<Channel, Failure> {
        let opened = wire.opened.fetch_add(1, Ordering::Relaxed) + 1;
        if opened >= most(wire.connection.configuration().channel_max()) {
            // Who comes next gets another connection; this one is closed when its last call has ended.
            self.discard(wire);
        }
        // What goes wrong here is never taken for an answer to the call.
        let channel = wire.connection.create_channel().await.map_err(Failure::Broken)?;
        if self.confirms {
            channel.confirm_select(ConfirmSelectOptions::default()).await.map_err(Failure::Broken)?;
        }
        Ok(channel)
    }

    /// The connection there is, or a new one.
    async fn wire(&self) -> Result<Arc<Wire>, Failure> {
        if let Some(wire) = self.current() {
            return Ok(wire);
        }
        let _connecting = self.connecting.lock().await;
        if let Some(wire) = self.current() {
            return Ok(wire);
        }
        let connection = match tokio::time::timeout(CONNECT, self.address.connect(self.name)).await {
            Ok(connection) => connection.map_err(Failure::Unreachable)?,
            Err(_late) => return Err(Failure::Silent),
        };
        let wire = Arc::new(Wire {
            connection,
            idle: Mutex::default(),
            opened: AtomicU32::new(0),
            heard: Mutex::new(Instant::now()),
        });
        *lock(&self.wire) = Some(Arc::clone(&wire));
        Ok(wire)
    }

    fn current(&self) -> Option<Arc<Wire>> {
        lock(&self.wire).clone().filter(|wire| wire.connection.status().connected())
    }

    fn discard(&self, wire: &Arc<Wire>) {
        let mut current = lock(&self.wire);
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, wire)) {
            *current = None;
        }
    }

    /// How many channels the connection allows; 0 is any number.
    pub(super) async fn channels(&self) -> Result<u16, Failure> {
        Ok(self.wire().await?.connection.configuration().channel_max())
    }

    /// Closes the connection.
    pub(super) async fn close(&self) {
        let wire = lock(&self.wire).take();
        if let Some(wire) = wire {
            // It closes by itself, too, once nobody has it any more.
            let _ = tokio::time::timeout(CALL / 2, wire.connection.close(200, "OK".into())).await;
        }
    }
}

fn most(channel_max: u16) -> u32 {
    let allowed = if channel_max == 0 { u16::MAX } else { channel_max };
    u32::from(CHANNELS.min(allowed / 2).max(1))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
