//! Random sequences of every call, on the memory store and on another under one clock: every answer, every list of
//! unfinished runs and every history is equal. Fences only have to be as great, and to grow, which others of these tests
//! hold a store to.
//!
//! The memory store decides by the rules in [`lease`](crate::lease) as they are, so this holds a store that states them
//! again, in SQL say, to the same rules, in states that nobody thought of writing a test for. It needs a store whose
//! clock is set by hand ([`HandClocked`]), so it is of use for those whose statements can be given another clock: a
//! [`SqlBackend`] reads [`HAND_CLOCK`] where its dialect says the clock.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "an assertion that panics is how a store is told that it differs"
)]

mod play;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::BoxFuture;

use self::play::Play;
use crate::backend::LeaseBackend;
use crate::backend::sql::{SqlBackend, SqlClient, SqlDialect, Statement, Value};
use crate::clock::Clock;

/// How many plays one call makes, each on a store of its own.
const PLAYS: u64 = 8;

/// A store whose clock a test sets.
///
/// # Contract
/// Between two calls of [`set_clock`](Self::set_clock) the store's clock stands still.
pub trait HandClocked: LeaseBackend {
    /// Sets the clock to `now`, in ms since the epoch. It may go back.
    fn set_clock(&self, now: i64) -> impl Future<Output = ()> + Send;
}

/// The clock of a SQL store that a test sets: a row of the store's own table of settings, which has its default name.
pub const HAND_CLOCK: &str = "(SELECT v FROM anarchon_runs_meta WHERE k = 'hand')";

/// For a backend on the default tables whose dialect gives [`HAND_CLOCK`] as its clock.
impl<C: SqlClient, D: SqlDialect> HandClocked for SqlBackend<C, D> {
    async fn set_clock(&self, now: i64) {
        let statements = vec![
            Statement::new("DELETE FROM anarchon_runs_meta WHERE k = 'hand'", Vec::new()),
            Statement::new("INSERT INTO anarchon_runs_meta (k, v) VALUES ('hand', ?)", vec![Value::Int(now)]),
        ];
        self.client().batch(statements).await.expect("the clock can be set");
    }
}

/// Plays on stores that `store` makes, each of them new, empty and connected; it is given the seed, which names the
/// play. `ANARCHON_DIFFERENTIAL_STEPS` asks for another number of calls than `steps`.
///
/// # Panics
/// When the store answers anything else than the memory store, with the calls that led there; and when a kind of answer
/// was never given, for want of steps: some 6,000 are enough.
pub async fn play<B: HandClocked>(first_seed: u64, steps: u64, store: impl AsyncFn(u64) -> B) {
    let steps = std::env::var("ANARCHON_DIFFERENTIAL_STEPS").ok().and_then(|s| s.parse().ok()).unwrap_or(steps);
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in first_seed..first_seed + PLAYS {
        let mut play = Play::new(seed, store(seed).await).await;
        play.forget().await;
        for _ in 0..steps / PLAYS {
            play.step().await;
        }
        play.look_at_all().await;
        play.seen.into_iter().for_each(|(word, count)| *seen.entry(word).or_default() += count);
    }
    println!("{seen:#?}");
    let missed: Vec<&&str> = seen.iter().filter(|(_, count)| **count == 0).map(|(word, _)| word).collect();
    assert!(missed.is_empty(), "never answered: {missed:?}");
}

/// splitmix64: good enough to wander with, and the same for ever.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap()].clone()
    }
}

/// A clock that stands still until it is set.
#[derive(Debug)]
pub(super) struct HandClock(Mutex<i64>);

impl HandClock {
    pub(super) fn at(ms: i64) -> Self {
        Self(Mutex::new(ms))
    }

    pub(super) fn set(&self, ms: i64) {
        *self.0.lock().unwrap() = ms;
    }
}

impl Clock for HandClock {
    fn wall_ms(&self) -> i64 {
        *self.0.lock().unwrap()
    }

    fn boot(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep_until(&self, _at: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}
