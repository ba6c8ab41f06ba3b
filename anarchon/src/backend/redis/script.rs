//! The scripts, one for each verb.

use std::sync::LazyLock;

use redis::Script;

macro_rules! scripts {
    ($(#[$doc:meta])* $all:ident on $job:literal { $($name:ident = [$($part:literal),+];)+ }) => {
        $(pub(super) static $name: LazyLock<Verb> = LazyLock::new(|| {
            Verb::new(concat!(include_str!($job), $("\n", include_str!($part)),+))
        });)+

        $(#[$doc])*
        pub(super) fn $all() -> Vec<&'static Verb> {
            vec![$(&$name),+]
        }
    };
}

scripts! {
    /// Those with leases.
    lease on "lua/job.lua" {
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
}

scripts! {
    /// Those that all strategies without leases have.
    first on "lua/first/job.lua" {
        FIRST_MANUAL = ["lua/first/manual.lua", "lua/each.lua"];
        FIRST_FINISH = ["lua/first/finish.lua", "lua/each.lua"];
        FIRST_HISTORY = ["lua/first/history.lua", "lua/each.lua"];
    }
}

scripts! {
    /// Those of the ids of a stream.
    stream_id on "lua/first/job.lua" {
        STREAM_ID_CLAIM = ["lua/first/stream_id.lua", "lua/first/claim.lua", "lua/each.lua"];
        STREAM_ID_TRIM = ["lua/first/stream_id.lua", "lua/first/trim.lua", "lua/each.lua"];
    }
}

scripts! {
    /// Those of a window.
    window on "lua/first/job.lua" {
        WINDOW_CLAIM = ["lua/first/window.lua", "lua/first/claim.lua", "lua/each.lua"];
        WINDOW_TRIM = ["lua/first/window.lua", "lua/first/trim.lua", "lua/each.lua"];
    }
}

scripts! {
    /// Those of idempotent XADD.
    idmp on "lua/first/job.lua" {
        IDMP_CLAIM = ["lua/first/idmp.lua", "lua/first/claim.lua", "lua/each.lua"];
        IDMP_TRIM = ["lua/first/idmp.lua", "lua/first/trim.lua", "lua/each.lua"];
        IDMP_WINDOW = ["lua/first/idmp.lua", "lua/first/window_of.lua", "lua/each.lua"];
    }
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
