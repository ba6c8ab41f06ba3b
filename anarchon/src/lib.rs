//! anarchon

pub mod backend;
pub mod catalogue;
mod clock;
mod error;
mod history;
pub mod lease;
pub mod option;
pub mod run;
mod slot;

pub use backend::*;
pub use clock::*;
pub use error::*;
pub use option::{Overlap, Retention};
pub use slot::*;
#[cfg(feature = "testing")]
pub mod testing;
