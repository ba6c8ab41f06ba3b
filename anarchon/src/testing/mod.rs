//! For tests of backends and of jobs: the conformance suite, a clock that is moved by hand, and a store that fails on
//! demand.

mod clock;
pub mod conformance;
mod faulty;
mod played;

pub use clock::ManualClock;
pub use faulty::{Fault, FaultyBackend, Verb};
pub use played::PlayedFinish;
