//! An export that is stopped, goes on in the next process, and is made up for.

use std::path::Path;
use std::time::Duration;

use tests::wall_ms;

use crate::program::{Program, slot};

const INTERVAL_MS: i64 = 4000;

fn start(file: &Path) -> Program {
    Program::start_with("nightly_export", |command| {
        command.arg(file);
    })
}

#[test]
fn nightly_export_goes_on_where_a_stopped_process_was_and_makes_up_for_what_was_missed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("export.db");
    let mut first = start(&file);
    let third = first.wait_line("page 3 of 10");
    first.terminate();
    let lines = first.end();
    let handed_over = format!("{}  handed over", slot(&third));
    assert!(lines.contains(&handed_over), "{lines:#?}");
    let written = lines.iter().filter(|line| line.contains(" of 10")).count();

    let mut second = start(&file);
    let began = second.wait_line("begins with page");
    assert_eq!(began, format!("{}  attempt 2 (hand-over) begins with page {}", slot(&third), written + 1));
    loop {
        second.wait_line("exported");
        second.terminate();
        // Unless it has begun with the next one just before.
        if !second.end().iter().any(|line| line.contains("handed over")) {
            break;
        }
        second = start(&file);
    }

    // While nobody is there, a slot passes.
    let next = (wall_ms() / INTERVAL_MS + 1) * INTERVAL_MS;
    while wall_ms() <= next {
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut third = start(&file);
    let caught_up = third.wait_line("begins with page");
    assert!(caught_up.contains("attempt 1 (catch-up) begins with page 1"), "{caught_up}");
    third.terminate();
    third.end();
}
