//! What tests with real processes are made of: a [`Lab`] with a store and the processes of the `node` example on it,
//! the log they write, and checks of what must hold in every log; and of real [`servers`], with a [`Proxy`] before them.
//!
//! Everything here panics where something goes wrong, since it is for tests only; a lab that is dropped by a panic
//! prints its log.

#![cfg(unix)]
#![allow(clippy::expect_used, reason = "this crate serves tests, where a panic is how a failure is told")]

pub mod backends;
mod binary;
pub mod check;
mod client;
pub mod failures;
mod lab;
mod log;
mod node;
mod proxy;
pub mod race;
pub mod servers;
mod store;

pub use binary::example;
pub use client::Client;
pub use lab::{LONG, Lab};
pub use log::{Line, LogWriter, monotonic_ns, wall_ms};
pub use node::{Death, Node, NodeOptions};
pub use proxy::Proxy;
pub use store::{Server, Store};
