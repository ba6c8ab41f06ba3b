//! The engine on a memory store, with a clock that is moved by hand: every scenario takes milliseconds and is the same
//! each time.
// A test binary's modules have no outside, and its helpers panic as tests do.
#![allow(unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

mod claims;
mod clocks;
mod finishing;
mod freezes;
mod health;
mod leases;
mod manual;
mod refusals;
mod retries;
mod runtimes;
mod scale;
mod slots;
mod stopping;
mod world;
