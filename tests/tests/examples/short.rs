//! Those that show something and end by themselves.

use crate::program::{Program, after, each_slot_once, slot};

#[test]
fn billing_bills_no_slot_twice_and_its_history_tells_of_the_crash() {
    let lines = Program::start("billing").end();
    each_slot_once(&after(&lines, "", "billed"));
    let crashed = after(&lines, "", "first crashes");
    assert_eq!(crashed.len(), 1, "{lines:#?}");
    let of_it: Vec<_> =
        after(&lines, "history:", "attempt").into_iter().filter(|l| slot(l) == slot(crashed[0])).collect();
    assert_eq!(of_it, [format!("{}  attempt 1 by first: lost", slot(crashed[0]))], "{lines:#?}");
    assert!(after(&lines, "history:", "by second: done").len() >= 2, "{lines:#?}");
}

#[test]
fn cache_refresh_refreshes_each_slot_once_and_leaves_out_those_that_were_missed() {
    let lines = Program::start("cache_refresh").end();
    let refreshed = after(&lines, "", "refreshed by");
    each_slot_once(&refreshed);
    assert_eq!(after(&lines, "the process hangs", "missed").len(), 1, "{lines:#?}");
    assert!(!after(&lines, "missed", "refreshed by").is_empty(), "{lines:#?}");
    // The first slot that fell due meanwhile was more than 1.5 s late when the process went on.
    let next = (second(after(&lines, "", "the process hangs")[0]) + 1) % 86_400;
    assert!(refreshed.iter().all(|line| second(line) != next), "{lines:#?}");
}

/// The second of the day that a line begins with.
fn second(line: &str) -> u32 {
    slot(line).split(':').fold(0, |sum, part| sum * 60 + part.parse::<u32>().expect("a number"))
}

#[test]
fn tenants_adds_and_removes_jobs_while_others_go_on() {
    let lines = Program::start("tenants").end();
    assert!(after(&lines, "sync-acme is added", "synchronised acme").len() >= 2, "{lines:#?}");
    // A run that had begun is let end.
    assert!(after(&lines, "sync-acme is removed", "synchronised acme").len() <= 1, "{lines:#?}");
    for stays in ["globex", "initech"] {
        assert!(after(&lines, "sync-initech is added", &format!("synchronised {stays}")).len() >= 2, "{lines:#?}");
        assert_eq!(after(&lines, "", &format!("sync-{stays} is left")).len(), 1, "{lines:#?}");
    }
    assert!(after(&lines, "", "sync-acme is left").is_empty(), "{lines:#?}");
}

#[test]
fn own_backend_lets_each_slot_run_once() {
    let lines = Program::start("own_backend").end();
    let greeted = after(&lines, "", "says hello");
    assert!(greeted.len() >= 6, "{lines:#?}");
    each_slot_once(&greeted);
    assert!(after(&lines, "the journal:", "Won").len() >= 6, "{lines:#?}");
}
