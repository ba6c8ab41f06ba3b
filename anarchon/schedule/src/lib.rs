//! Schedules.
pub mod name;

/// stub
#[derive(Debug, thiserror::Error)]
#[error("stub")]
pub struct ParseError;
