//! The examples, each as a newcomer runs it: a process whose lines are read.

#![cfg(unix)]
#![allow(clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod axum_service;
mod effects;
mod export;
mod outbox;
mod program;
mod short;
