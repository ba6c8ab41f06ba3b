//! What SQL decides is what the rules in Rust decide: random histories, played on this store and on the memory store.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod differential;
mod file;
mod quick;
mod support;
