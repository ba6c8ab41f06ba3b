//! The quickstart example, as a newcomer runs it.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn the_quickstart_shows_a_takeover_and_a_hand_over_and_leaves_nothing_behind() {
    let directory = tempfile::tempdir().expect("a directory");
    let began = Instant::now();
    let output = Command::new(tests::example("quickstart"))
        .env("TMPDIR", directory.path())
        .stdin(Stdio::null())
        .output()
        .expect("the quickstart runs");
    let took = began.elapsed();
    let (shown, complaints) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}: {complaints}\n{shown}", output.status);
    for words in ["wins the slot", "killed", "takes over: attempt 2", "attempt 2 of the same slot", "handed_over"] {
        assert!(shown.contains(words), "no {words:?} in:\n{shown}");
    }
    assert!(took < Duration::from_secs(40), "it took {took:?}");
    // Its output has ended, so no process of it holds the other end; and its files are gone.
    let left: Vec<_> = std::fs::read_dir(directory.path()).expect("a directory").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}
