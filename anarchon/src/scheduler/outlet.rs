//! Where events go: to those who listen, into the counts of `health()`, and into metrics.

use std::sync::Arc;

use tokio::sync::broadcast;

use super::clocks::Now;
use super::engine::Engine;
use super::vitals::Vitals;
use crate::error::BackendError;
use crate::event::Event;

pub(super) struct Outlet {
    events: broadcast::Sender<Event>,
    /// Whether anybody listens to events; asking each time would cost a lock.
    heard: bool,
    pub(super) vitals: Arc<Vitals>,
}

impl Outlet {
    pub(super) fn new(events: broadcast::Sender<Event>, vitals: Arc<Vitals>) -> Self {
        Self { events, heard: false, vitals }
    }

    pub(super) fn look_who_listens(&mut self) {
        self.heard = cfg!(feature = "metrics") || self.events.receiver_count() > 0;
    }

    /// A call failed, or a part of one about many things.
    pub(super) fn store_failed(&self, error: &BackendError, now: Now) {
        #[cfg(feature = "metrics")]
        super::meter::store_failed(error);
        self.vitals.store_failed(error, now);
    }
}

impl Engine {
    pub(super) fn emit(&self, event: Event) {
        self.outlet.vitals.count(&event);
        #[cfg(feature = "metrics")]
        super::meter::event(&event);
        // Nobody listening is no error.
        let _ = self.outlet.events.send(event);
    }

    /// Emits an event that costs more to make than to look whether anybody listens.
    pub(super) fn tell(&self, event: impl FnOnce() -> Event) {
        if self.outlet.heard {
            self.emit(event());
        }
    }
}
