//! anarchon
