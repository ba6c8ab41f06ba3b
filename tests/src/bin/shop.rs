//! A program with jobs, for tests of its command line.
//!
//! ```text
//! SHOP_HOLD        a file: while it is there, `stocktaking` goes on
//! SHOP_WITH_STDIN  set: the program dies when its standard input ends, as it does when the test dies
//! ```

#![allow(missing_docs, reason = "this program serves tests")]

use std::io::Read as _;
use std::path::PathBuf;
use std::time::Duration;

use anarchon::State;

#[derive(Clone)]
struct Hold(Option<PathBuf>);

impl Hold {
    fn new() -> Self {
        if std::env::var_os("SHOP_WITH_STDIN").is_some() {
            std::thread::spawn(|| {
                drop(std::io::stdin().read_to_end(&mut Vec::new()));
                std::process::exit(9);
            });
        }
        Self(std::env::var_os("SHOP_HOLD").map(PathBuf::from))
    }
}

/// Takes as long as it is told to.
#[anarchon::job(every = "1s", jitter = "0s", max_attempts = 5)]
async fn stocktaking(State(hold): State<Hold>) {
    while hold.0.as_ref().is_some_and(|file| file.exists()) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Is over at once, and is never made up for.
#[anarchon::job(every = "1s", jitter = "0s", max_late = "1s", catch_up = "0s")]
async fn orders() {}

#[anarchon::job(cron = "0 2 * * *", timezone = "Europe/Berlin")]
async fn nightly() {}

#[anarchon::job(at = "2099-01-01T00:00:00Z")]
async fn farewell() -> Result<(), std::io::Error> {
    Err(std::io::Error::other("the till is empty"))
}

anarchon::main! {
    state: Hold::new(),
    lease: "5s",
    watch: "200ms",
    stop_grace: "1s",
}
