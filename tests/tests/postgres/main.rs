//! The PostgreSQL store on real servers: directly and behind poolers.

#![cfg(unix)]
#![allow(clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod conformance;
mod differential;
mod place;
