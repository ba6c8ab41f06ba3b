//! Where events go: to those who listen, and into the counts of `health()`.

use std::sync::Arc;

use tokio::sync::broadcast;

use super::engine::Engine;
use super::vitals::Vitals;
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
        self.heard = self.events.receiver_count() > 0;
    }
}

impl Engine {
    pub(super) fn emit(&self, event: Event) {
        self.outlet.vitals.count(&event);
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
