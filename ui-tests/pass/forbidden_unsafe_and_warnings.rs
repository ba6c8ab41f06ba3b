#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, unused, unreachable_pub, unused_qualifications, rust_2018_idioms)]
//! Under strict lints.

anarchon::backend!(anarchon::MemoryBackend);

/// Says something.
#[anarchon::job(every = "1h", overlap = "skip", data = 1)]
pub async fn notify(_count: anarchon::Data<u8>) -> Result<(), std::io::Error> {
    Ok(())
}

fn main() {}
