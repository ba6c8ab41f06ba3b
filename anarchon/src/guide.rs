//! Chapters about one matter each.

#[cfg(feature = "_sqlx")]
#[doc = include_str!("docs/effects.md")]
pub mod effects {}
