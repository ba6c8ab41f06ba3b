//! For tests of jobs and of backends: instances in one process that are killed, frozen and stopped while time is moved by
//! hand ([`TestCluster`]), the conformance suite, random plays beside the memory store, and a store that fails on demand.

mod clock;
mod cluster;
pub mod conformance;
pub mod differential;
mod faulty;
mod played;

pub use clock::ManualClock;
pub use cluster::{TestCluster, TestStore};
pub use faulty::{Fault, FaultyBackend, Verb};
pub use played::PlayedFinish;
