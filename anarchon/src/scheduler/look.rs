//! A way into the store for those who only read: nothing is registered, claimed or made.

use std::sync::Arc;
use std::time::Duration;

use super::driver::close;
use super::launch::{CONNECT, Parts, in_time};
use crate::backend::{DynStore, ServerInfo};
use crate::clock::Clock;
use crate::error::{BackendError, Result};
use crate::job::Job;

/// Readings of the store's clock; the one with the shortest round trip counts.
const CLOCK_SAMPLES: usize = 3;

/// How a local clock differs from the store's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offset {
    /// The store's clock minus the local one, in ms.
    pub(crate) ms: i64,
    /// How long the store took to tell it.
    pub(crate) round_trip: Duration,
}

/// A connected store, and the jobs of this program.
pub(crate) struct Look {
    pub(crate) store: Arc<dyn DynStore>,
    pub(crate) info: ServerInfo,
    /// Sorted by name.
    pub(crate) jobs: Vec<Job>,
    /// `None` where the store has no clock.
    pub(crate) offset: Option<Offset>,
    clock: Arc<dyn Clock>,
    deadline: Duration,
}

impl Look {
    pub(super) async fn new(parts: Parts) -> Result<Self> {
        let Parts { store, clock, settings, jobs, .. } = parts;
        let opened = async {
            let info = in_time(&*clock, &*store, CONNECT, store.look()).await?;
            // Asking for the time could make the file of a store that is not there yet.
            let offset = if info.empty { None } else { offset(&*clock, &*store).await? };
            Ok((info, offset))
        };
        match opened.await {
            Ok((info, offset)) => {
                let deadline = settings.call_deadline();
                Ok(Self { store, info, jobs, offset, clock, deadline })
            }
            Err(error) => {
                close(&*clock, &*store).await;
                Err(error)
            }
        }
    }

    /// The time by which slots are due, in ms since the epoch.
    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.wall_ms().saturating_add(self.offset.map_or(0, |offset| offset.ms))
    }

    /// An answer of the store, or an error when it takes too long.
    pub(crate) async fn ask<T>(&self, call: impl Future<Output = Result<T, BackendError>>) -> Result<T> {
        in_time(&*self.clock, &*self.store, self.deadline, call).await
    }

    /// The program's job of this name.
    pub(crate) fn job(&self, name: &str) -> Option<&Job> {
        self.jobs.iter().find(|job| job.name.as_str() == name)
    }

    /// Closes what was opened.
    pub(crate) async fn close(&self) {
        close(&*self.clock, &*self.store).await;
    }
}

async fn offset(clock: &dyn Clock, store: &dyn DynStore) -> Result<Option<Offset>> {
    let mut best: Option<Offset> = None;
    for _ in 0..CLOCK_SAMPLES {
        let sent = clock.boot();
        let Some(ms) = in_time(clock, store, CONNECT, store.clock()).await? else { return Ok(None) };
        let round_trip = clock.boot().saturating_sub(sent);
        let half = i64::try_from(round_trip.as_millis() / 2).unwrap_or(0);
        let sample = Offset { ms: ms.saturating_add(half).saturating_sub(clock.wall_ms()), round_trip };
        if best.is_none_or(|best| sample.round_trip < best.round_trip) {
            best = Some(sample);
        }
    }
    Ok(best)
}
