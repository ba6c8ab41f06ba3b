//! A real renaming is in the crate `renamed`; here it is one of this file.

extern crate anarchon as scheduling;

use renamed as _;
use scheduling::{ClaimOnlyMemoryBackend, State};

scheduling::backend!(ClaimOnlyMemoryBackend, crate = "scheduling");

#[scheduling::job(every = "1h", crate = "scheduling")]
async fn notify(_pool: State<u8>) {}

mod nested {
    #[scheduling::job(every = "1h", crate = "::scheduling")]
    async fn clean() {}
}

fn main() {}
