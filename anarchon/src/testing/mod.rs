//! For tests of backends and of jobs: the conformance suite, random plays beside the memory store, a clock that is moved by hand, and a store that fails on
//! demand.

mod clock;
pub mod conformance;
pub mod differential;
mod faulty;

pub use clock::ManualClock;
pub use faulty::{Fault, FaultyBackend, Verb};
