//! The engine on a memory store, with a clock that is moved by hand: every scenario takes milliseconds and is the same
//! each time.
#![allow(unreachable_pub)] // a binary's modules have no outside

mod claims;
mod clocks;
mod leases;
mod manual;
mod refusals;
mod retries;
mod scale;
mod slots;
mod stopping;
mod world;
