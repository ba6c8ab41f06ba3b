//! What SQL decides is what the rules in Rust decide: random histories, played on this store and on the memory store.

mod differential;
mod file;
mod quick;
mod support;
