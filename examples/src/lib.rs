//! Programs to try anarchon with: they are in the folder `examples`, and `cargo run -p examples --example` lists them.
