//! Chapters about one matter each.

#[cfg(feature = "sqlite")]
#[doc = include_str!("docs/effects.md")]
pub mod effects {}
