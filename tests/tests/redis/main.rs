//! The backends on Redis and Valkey, on real servers.

#![cfg(unix)]
#![allow(clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod conformance;
