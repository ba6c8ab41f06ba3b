//! Schedules in words.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says by a panic what is wrong")]

mod support;

use anarchon_schedule::{At, Schedule};
use support::{cron, every, quartz};

#[test]
fn the_usual_lines_are_said_and_the_others_stand_for_themselves() {
    let lines = [
        ("* * * * *", "every minute"),
        ("*/15 * * * *", "every 15 minutes"),
        ("5 * * * *", "at minute 5 of every hour"),
        ("0 2 * * *", "at 02:00 every day"),
        ("30 8,12,16 * * *", "at 08:30, 12:30 and 16:30 every day"),
        ("0 */6 * * *", "at minute 0 of every 6 hours, from 00:00 on"),
        ("0 8 * * MON-FRI", "at 08:00, Monday to Friday"),
        ("0 8 * * 1,3,7", "at 08:00, Monday, Wednesday and Sunday"),
        ("0 8 * * 0", "at 08:00, Sunday"),
        ("0 0 1 * *", "at 00:00, on day 1 of every month"),
        ("0 0 1,15 JAN,jul ?", "at 00:00, on days 1 and 15 of January and July"),
        ("0 0 L * *", "at 00:00, on the last day of every month"),
        ("0 6 * 6-8 sat", "at 06:00, Saturday, in June to August"),
        ("0 6 * 12 *", "at 06:00, every day of December"),
        ("*/10 * * * * *", "every 10 seconds"),
        ("* * * * * *", "every second"),
        ("0 30 2 * * *", "at 02:30 every day"),
        ("@daily", "at 00:00 every day"),
        ("@Weekly", "at 00:00, Sunday"),
    ];
    for (line, said) in lines {
        assert_eq!(cron(line, "Europe/Berlin").in_words(), format!("cron {line} ({said})"));
    }
    // An uneven step, either of two days, a range that wraps, and what has no short name.
    for line in ["*/7 * * * *", "0 0 13 * FRI", "0 8 * * FRI-MON", "0 0 15W * *", "0 0 * * FRI#3", "1-5 * * * *"] {
        assert_eq!(cron(line, "UTC").in_words(), format!("cron {line}"));
    }
    assert_eq!(quartz("0 0 8 * * 2", "UTC").in_words(), "cron quartz 0 0 8 * * 2");
}

#[test]
fn grids_and_instants_are_said_with_their_units_and_have_no_zone() {
    assert_eq!(every("1h", "0s").in_words(), "every 1 h");
    assert_eq!(every("1h30m", "0s").in_words(), "every 1 h 30 min");
    assert_eq!(every("7d", "4d").in_words(), "every 7 d, 4 d later");
    assert_eq!(every("1500ms", "0s").in_words(), "every 1 s 500 ms");
    let once = Schedule::from(At::parse("2027-01-01T00:00:00+09:00", None).unwrap());
    assert_eq!(once.in_words(), "once at 2026-12-31T15:00:00Z");
    assert_eq!((once.zone_name(), every("1h", "0s").zone_name()), (None, None));
    assert_eq!(cron("0 2 * * *", "Europe/Berlin").zone_name(), Some("Europe/Berlin"));
}
