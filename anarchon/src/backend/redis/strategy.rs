//! Strategies: how a backend on Redis or Valkey decides, and what it can be asked.

use std::time::Duration;

use super::calls::Calls;
use super::first::{ClaimStore, Decide};
use super::lease::LeaseStore;
use crate::clock::to_ms;

pub(super) mod sealed {
    use super::super::calls::Calls;

    /// What only strategies of this crate are.
    pub trait Sealed {
        /// What does the work.
        type Store: Kept;
        /// The backend's name on Redis.
        const REDIS: &'static str;
        /// The backend's name on Valkey; a strategy that is not there has none.
        const VALKEY: &'static str;

        /// A store that works so.
        fn store(&self, calls: Calls) -> Self::Store;
    }

    /// A store, which can be given other settings.
    pub trait Kept: Send + Sync + 'static {
        /// Its calls.
        fn calls(&self) -> &Calls;
        /// The same, to be changed.
        fn calls_mut(&mut self) -> &mut Calls;
        /// The same, to go on with.
        fn into_calls(self) -> Calls;
    }
}

/// A way to decide who runs a slot: [`Lease`], [`StreamId`], [`Script`] or, on Redis alone, [`Idmp`].
pub trait Strategy: sealed::Sealed + Send + Sync + 'static {}

/// A [`Strategy`] that Valkey has, too: all but [`Idmp`].
#[diagnostic::on_unimplemented(
    message = "the strategy `{Self}` does not exist on Valkey",
    label = "not on `ValkeyBackend`",
    note = "it needs idempotent XADD, which only Redis has; `StreamId` and `Script` are on both"
)]
pub trait ValkeyStrategy: Strategy {}

/// A [`Strategy`] without leases.
pub trait Claims: Strategy + sealed::Sealed<Store = ClaimStore> {}

/// The strategy with leases, and the default: who runs a slot, and until when, is kept in the job's own keys. Backups,
/// overlap protection, retries and catch-up need it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lease;

/// Claims alone, by the ids of a stream: a slot is an entry's id, and the server takes none that is not greater than the
/// last one.
///
/// A decided slot is remembered for ever. A slot older than the job's last decided one is late, however little: of two
/// versions of a schedule, or two slots within one wait, the older slot may be left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamId;

/// Claims alone, by a script that notes the first token of each slot and remembers it for a window, which must be longer
/// than a job's `jitter` and `max_late` together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script {
    pub(super) window: Duration,
}

impl Script {
    /// Remembers decided slots for `window`, counted from the slot.
    #[must_use]
    pub const fn new(window: Duration) -> Self {
        Self { window }
    }
}

impl Default for Script {
    /// A window of 10 minutes.
    fn default() -> Self {
        Self::new(Duration::from_secs(600))
    }
}

/// Claims alone, by the idempotent XADD of Redis 8.6 and newer, which remembers an id for a time.
///
/// That time is set when a job's stream is made, and cannot be changed afterwards without forgetting what was decided: a
/// backend with another one is refused when its jobs are registered, with both values.
///
/// The server also bounds how many ids it remembers, but for each producer of ids on its own. Here each slot is its own
/// producer, with the one id that all its claims have, so that bound is never reached, whatever it is set to, and there
/// is no option for it: however short a job's interval is, `duration` alone says how long its slots are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idmp {
    pub(super) duration: Duration,
}

/// The server forgets once in a while: never sooner than it was told, but what it was told are whole seconds.
pub(super) const IDMP_MARGIN: Duration = Duration::from_secs(2);

impl Idmp {
    /// Remembers decided slots for `duration`, in whole seconds from 3 to 86,400; of those, the last two are not counted
    /// on. Anything else is an error of `start()`.
    #[must_use]
    pub const fn new(duration: Duration) -> Self {
        Self { duration }
    }

    pub(super) fn wrong(self) -> Option<String> {
        let whole = to_ms(self.duration) % 1000 == 0 && self.duration.subsec_nanos() == 0;
        let fits = (3..=86_400).contains(&self.duration.as_secs());
        (!whole || !fits).then(|| {
            format!("`duration` of idmp is {:?}; it must be of whole seconds, from 3 to 86,400", self.duration)
        })
    }
}

impl Default for Idmp {
    /// 10 minutes.
    fn default() -> Self {
        Self::new(Duration::from_secs(600))
    }
}

impl sealed::Kept for LeaseStore {
    fn calls(&self) -> &Calls {
        &self.calls
    }

    fn calls_mut(&mut self) -> &mut Calls {
        &mut self.calls
    }

    fn into_calls(self) -> Calls {
        self.calls
    }
}

impl sealed::Kept for ClaimStore {
    fn calls(&self) -> &Calls {
        &self.calls
    }

    fn calls_mut(&mut self) -> &mut Calls {
        &mut self.calls
    }

    fn into_calls(self) -> Calls {
        self.calls
    }
}

impl sealed::Sealed for Lease {
    type Store = LeaseStore;
    const REDIS: &'static str = "redis:lease";
    const VALKEY: &'static str = "valkey:lease";

    fn store(&self, calls: Calls) -> LeaseStore {
        LeaseStore::new(calls)
    }
}

impl Strategy for Lease {}
impl ValkeyStrategy for Lease {}

macro_rules! claims {
    ($($strategy:ident = $redis:literal, $valkey:literal, $decide:expr;)+) => {$(
        impl sealed::Sealed for $strategy {
            type Store = ClaimStore;
            const REDIS: &'static str = $redis;
            const VALKEY: &'static str = $valkey;

            fn store(&self, calls: Calls) -> ClaimStore {
                let decide: fn(&Self) -> Decide = $decide;
                ClaimStore::new(calls, decide(self))
            }
        }

        impl Strategy for $strategy {}
        impl Claims for $strategy {}
    )+};
}

claims! {
    StreamId = "redis:stream-id", "valkey:stream-id", |_| Decide::StreamId;
    Script = "redis:script", "valkey:script", |script| Decide::Window(script.window);
    Idmp = "redis:idmp", "", |idmp| Decide::Idmp(*idmp);
}

impl ValkeyStrategy for StreamId {}
impl ValkeyStrategy for Script {}
