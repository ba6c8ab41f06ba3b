//! The scripts, one for each verb.

use std::sync::LazyLock;

use redis::Script;

macro_rules! scripts {
    ($($name:ident = [$($part:literal),+];)+) => {
        $(pub(super) static $name: LazyLock<Verb> = LazyLock::new(|| {
            Verb::new(concat!(include_str!("lua/job.lua"), $("\n", include_str!($part)),+))
        });)+

        /// All of them, to be sent when a connection is made.
        pub(super) fn all() -> Vec<&'static Verb> {
            vec![$(&$name),+]
        }
    };
}

scripts! {
    CLAIM = ["lua/claim.lua", "lua/each.lua"];
    MANUAL = ["lua/manual.lua", "lua/each.lua"];
    HEARTBEAT = ["lua/heartbeat.lua", "lua/each.lua"];
    FINISH = ["lua/finish.lua", "lua/each.lua"];
    RELEASE = ["lua/release.lua", "lua/each.lua"];
    ACTIVE = ["lua/active.lua"];
    HISTORY = ["lua/history.lua", "lua/each.lua"];
    TRIM = ["lua/trim.lua", "lua/each.lua"];
    REGISTER = ["lua/register.lua"];
    PAUSE = ["lua/pause.lua", "lua/each.lua"];
    PAUSED = ["lua/paused.lua", "lua/each.lua"];
}

/// A script: its text, and the hash by which a server knows it once it has seen the text.
#[derive(Debug)]
pub(super) struct Verb {
    pub(super) text: &'static str,
    pub(super) hash: String,
}

impl Verb {
    fn new(text: &'static str) -> Self {
        Self { text, hash: Script::new(text).get_hash().to_owned() }
    }
}
