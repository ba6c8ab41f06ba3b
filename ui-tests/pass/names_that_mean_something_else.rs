//! Nothing that the program defines can be taken for what the macros mean.
#![allow(dead_code, non_camel_case_types)]

mod core {}
mod std {}
mod anarchon {}
struct Option;
struct Some;
struct None;
struct Result;
struct Ok;
struct Chosen;
struct overlap;
struct u64;
struct parts;

::anarchon::backend!(::anarchon::MemoryBackend);

#[::anarchon::job(every = "1h", jitter = "1s", overlap = "skip")]
async fn r#type(_context: ::anarchon::Context) {}

fn main() {}
