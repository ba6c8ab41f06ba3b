//! The quartz dialect against the iterator of the `cron` crate, in UTC, where the two have to agree.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::str::FromStr;

use anarchon_schedule::{Cron, Dialect, Schedule, zone::Tz};
use chrono::DateTime;
use support::{Random, expect, ms, quartz, utc};

fn field(random: &mut Random, min: u32, max: u32, names: &[&str]) -> String {
    let mut items = Vec::new();
    for _ in 0..=random.below(2) {
        let (a, b) = (random.within(min, max), random.within(min, max));
        let (a, b) = (a.min(b), a.max(b));
        let name =
            |value: u32| names.get((value - min) as usize).map_or_else(|| value.to_string(), |name| (*name).to_owned());
        let step = random.within(1, (max - min).max(1));
        items.push(match random.below(7) {
            0 => "*".to_owned(),
            1 => format!("*/{step}"),
            2 => format!("{a}-{b}"),
            3 => format!("{a}-{b}/{step}"),
            4 => format!("{a}/{step}"),
            5 => format!("{}-{}", name(a), name(b)),
            _ => name(a),
        });
    }
    items.join(",")
}

fn line(random: &mut Random) -> String {
    let months = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
    let weekdays = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
    let mut some = |min, max, names: &[&str], star: &str| {
        if random.below(2) == 0 { field(random, min, max, names) } else { star.to_owned() }
    };
    let mut fields = vec![
        some(0, 59, &[], "0"),
        some(0, 59, &[], "0"),
        some(0, 23, &[], "12"),
        some(1, 31, &[], "?"),
        some(1, 12, &months, "*"),
        some(1, 7, &weekdays, "?"),
    ];
    match random.below(4) {
        0 => fields.push("*".to_owned()),
        1 => fields.push(field(random, 2000, 2040, &[])),
        _ => {}
    }
    fields.join(" ")
}

#[test]
fn quartz_lines_have_the_slots_of_the_cron_crate_in_utc() {
    let mut random = Random(8);
    let (mut compared, mut refused) = (0, 0);
    for _ in 0..4_000 {
        let text = line(&mut random);
        let theirs = cron::Schedule::from_str(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let start =
            DateTime::from_timestamp_millis(random.instant(ms("1999-01-01T00:00:00Z"), ms("2045-01-01T00:00:00Z")))
                .unwrap();
        let ours = match Cron::parse(&text, Dialect::Quartz, Tz::UTC) {
            Ok(cron) => Schedule::from(cron),
            Err(error) => {
                assert_eq!(error.message(), "this date never comes", "{text}");
                assert_eq!(theirs.after(&DateTime::UNIX_EPOCH).next(), None, "{text}");
                refused += 1;
                continue;
            }
        };
        let mut at = start.timestamp_millis();
        for expected in theirs.after(&start).take(10) {
            let slot = ours.next(at);
            assert_eq!(slot, Some(expected.timestamp_millis()), "{text} after {}: {expected}", utc(at));
            assert_eq!(ours.latest(expected.timestamp_millis()), slot, "{text}");
            at = expected.timestamp_millis();
            compared += 1;
        }
    }
    println!("{compared} slots compared, {refused} lines refused");
    assert!(compared > 25_000, "{compared}");
}

#[test]
fn quartz_lines_follow_the_rules_for_clock_changes() {
    expect(
        &quartz("0 30 2 * * ?", "America/New_York"),
        "2026-03-07T12:00:00-05:00",
        &["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"],
    );
    expect(
        &quartz("0 30 1 * * ?", "America/New_York"),
        "2026-10-31T12:00:00-04:00",
        &["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"],
    );
    expect(
        &quartz("0 0 * * * ?", "America/New_York"),
        "2026-11-01T04:30:00Z",
        &["2026-11-01T05:00:00Z", "2026-11-01T06:00:00Z", "2026-11-01T07:00:00Z"],
    );
}

#[test]
fn quartz_shorthands_are_the_usual_lines() {
    for short in ["@hourly", "@daily", "@weekly", "@monthly", "@yearly", " @Midnight "] {
        let unix = support::cron(short, "UTC");
        let start = ms("2026-01-15T10:07:30Z");
        assert_eq!(quartz(short, "UTC").next(start), unix.next(start), "{short}");
    }
}

#[test]
fn refusals_of_the_quartz_dialect_name_the_field() {
    let cases = [
        (
            "0 0 12 * *",
            "a quartz line has 6 or 7 fields, and this has 5 fields; the second comes first; for a line of 5 fields",
            "^^^^^^^^^^",
        ),
        (
            "* * * * * * * *",
            "a quartz line has 6 or 7 fields, and this has more; second, minute, hour,",
            "^^^^^^^^^^^^^^^",
        ),
        ("0 60 12 * * ?", "`60` is no minute field; values are 0-59", "  ^^"),
        ("0 0 24 * * ?", "`24` is no hour field; hours are 0-23", "    ^^"),
        ("0 0 12 L * ?", "`L` is no day of month field; `L` and `W` are there in the dialect `unix` only", "       ^"),
        ("0 0 12 ? * FRI#3", "`FRI#3` is no day of week field; `#` and `L` are there", "           ^^^^^"),
        ("0 0 12 ? * 0", "`0` is no day of week field; weekdays are 1-7 (1 is Sunday)", "           ^"),
        ("0 0 12 ? * FRI-MON", "`FRI-MON` is no day of week field", "           ^^^^^^^"),
        ("0 0 12 * * ? 1969", "`1969` is no year field; years are 1970-2100", "             ^^^^"),
        ("** 0 12 * * ?", "`**` is no second field", "^^"),
        ("0 0 1, 2 * * ?", "`1,` is no hour field", "    ^^"),
        ("0/0 0 12 * * ?", "`0/0` is no second field", "^^^"),
        ("  ", "an empty cron line", "^^"),
        ("@reboot", "`@reboot` is not a time", "^^^^^^^"),
    ];
    for (line, message, caret) in cases {
        let error = Cron::parse(line, Dialect::Quartz, Tz::UTC).unwrap_err();
        assert!(error.to_string().starts_with(message), "{line}: {error}");
        assert_eq!(error.caret(line).lines().nth(1), Some(caret), "\n{}", error.caret(line));
    }
    assert!(Cron::parse(&"1,".repeat(1_000), Dialect::Quartz, Tz::UTC).is_err());
}
