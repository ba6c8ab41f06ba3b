//! Zones, single instants, suggestions, and the texts that schedules and errors turn into.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use anarchon_schedule::zone::{self, Tz};
use anarchon_schedule::{At, Cron, Dialect, ParseError, Schedule, interval, suggest};
use support::{cron, every, ms, quartz};

#[test]
fn every_zone_is_read_by_its_name() {
    for zone in chrono_tz::TZ_VARIANTS {
        assert_eq!(zone::parse(zone.name()), Ok(zone));
    }
}

#[test]
fn a_zone_that_is_meant_is_named() {
    let cases = [
        ("Europe/Pari", "Europe/Paris"),
        ("europe/paris", "Europe/Paris"),
        ("EUROPE/PARIS", "Europe/Paris"),
        (" Europe/Paris", "Europe/Paris"),
        ("America/New York", "America/New_York"),
        ("America/NewYork", "America/New_York"),
        ("New York", "America/New_York"),
        ("Berlin", "Europe/Berlin"),
        ("tokyo", "Asia/Tokyo"),
        ("America/Los_Angelos", "America/Los_Angeles"),
        ("utc", "UTC"),
        ("Z", "UTC"),
        ("PST", "America/Los_Angeles"),
        ("EDT", "America/New_York"),
        ("cest", "Europe/Paris"),
        ("JST", "Asia/Tokyo"),
        ("est5edt", "EST5EDT"),
        ("Asia/Tokio", "Asia/Tokyo"),
    ];
    for (text, name) in cases {
        let error = zone::parse(text).unwrap_err();
        assert_eq!(error.hint(), Some(format!("did you mean `{name}`?").as_str()), "{text}");
        assert_eq!(error.span(), Some(0..text.len()));
        assert!(zone::parse(name).is_ok());
    }
}

#[test]
fn a_zone_that_nobody_can_guess_is_refused_with_an_example() {
    for text in ["", "  ", "Mars/Olympus_Mons", "Europe/Paris\0", "\u{1b}[31m", "⏰", &"Europe/".repeat(10_000)] {
        let error = zone::parse(text).unwrap_err();
        assert!(error.to_string().len() < 250, "{error}");
        assert!(!error.to_string().contains(char::is_control), "{error:?}");
        assert_eq!(error.caret(text).lines().count(), 2, "{text:?}");
    }
    let hint = "write an IANA name such as `Europe/Paris`, `America/New_York` or `UTC`";
    assert_eq!(zone::parse("Mars/Olympus_Mons").unwrap_err().hint(), Some(hint));
    assert_eq!(zone::parse("").unwrap_err().message(), "an empty time zone");
}

#[test]
fn an_offset_is_no_zone() {
    for text in ["+02:00", "UTC+2", "GMT-5", "utc+05:30", "-08"] {
        let hint = "an offset is not a zone; write a place such as `Europe/Paris`, or `UTC`";
        assert_eq!(zone::parse(text).unwrap_err().hint(), Some(hint), "{text}");
    }
}

#[test]
fn the_tables_have_a_release() {
    let year: String = zone::TZDATA_VERSION.chars().take(4).collect();
    assert!(year.parse::<u32>().is_ok_and(|year| year >= 2025), "{}", zone::TZDATA_VERSION);
}

#[test]
fn suggestions_are_close_and_words_of_another_kind_are_left_alone() {
    let options = ["every", "cron", "at", "offset", "timezone", "max_late", "max_attempts", "overlap"];
    let cases = [
        ("evry", Some("every")),
        ("corn", Some("cron")),
        ("CRON", Some("cron")),
        ("time_zone", Some("timezone")),
        ("maxlate", Some("max_late")),
        ("overlaps", Some("overlap")),
        ("ofset", Some("offset")),
        ("a", Some("at")),
        ("xy", None),
        ("", None),
        ("colour", None),
        ("zzzzzzzzzzzz", None),
    ];
    for (word, meant) in cases {
        assert_eq!(suggest::closest(word, options), meant, "{word}");
    }
    assert_eq!(suggest::closest(&"every".repeat(20_000), options), None);
}

#[test]
fn a_local_time_without_a_zone_is_utc() {
    let cases = [
        ("2027-01-01T00:00:00", "2027-01-01T00:00:00Z"),
        ("2027-01-01 00:00:00", "2027-01-01T00:00:00Z"),
        ("2027-01-01t00:00", "2027-01-01T00:00:00Z"),
        (" 2027-01-01T12:34:56.789 ", "2027-01-01T12:34:56.789Z"),
        ("2027-01-01T12:34:56.7", "2027-01-01T12:34:56.700Z"),
        ("2027-01-01T12:34:56.789000000", "2027-01-01T12:34:56.789Z"),
        ("2028-02-29T23:59:59", "2028-02-29T23:59:59Z"),
        ("1969-12-31T23:59:59.5", "1969-12-31T23:59:59.5Z"),
        ("0000-01-01T00:00:00", "0000-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59", "9999-12-31T23:59:59Z"),
    ];
    for (text, instant) in cases {
        assert_eq!(At::parse(text, None).map(|at| at.instant_ms()), Ok(ms(instant)), "{text}");
        assert_eq!(At::parse(text, Some(Tz::UTC)), At::parse(text, None), "{text}");
    }
}

#[test]
fn an_offset_of_its_own_needs_no_zone() {
    for text in [
        "2027-01-01T00:00:00+09:00",
        "2026-12-31 15:00:00Z",
        "2026-12-31T15:00z",
        "2026-12-31T09:30-05:30",
        "2026-12-31T15:00:00.000-00:00",
    ] {
        assert_eq!(At::parse(text, None).map(|at| at.instant_ms()), Ok(ms("2026-12-31T15:00:00Z")), "{text}");
    }
    let text = "2027-01-01T00:00:00+09:00";
    let error = At::parse(text, Some(Tz::Asia__Tokyo)).unwrap_err();
    assert_eq!(error.to_string(), "both an offset and a time zone; leave out one of them");
    assert_eq!(&text[error.span().unwrap()], "+09:00");
}

#[test]
fn a_local_instant_follows_the_rules_for_fixed_times() {
    let at = |text, zone| At::parse(text, Some(zone::parse(zone).unwrap())).map(|at| at.instant_ms());
    assert_eq!(at("2027-01-01T00:00:00", "Asia/Tokyo"), Ok(ms("2026-12-31T15:00:00Z")));
    // left out: the first instant after the gap, whatever the fraction
    assert_eq!(at("2026-03-08T02:30:00.250", "America/New_York"), Ok(ms("2026-03-08T07:00:00Z")));
    assert_eq!(at("2026-03-08T02:00:00", "America/New_York"), Ok(ms("2026-03-08T07:00:00Z")));
    assert_eq!(at("2026-03-08T03:00:00", "America/New_York"), Ok(ms("2026-03-08T07:00:00Z")));
    assert_eq!(at("2026-03-08T01:59:59.999", "America/New_York"), Ok(ms("2026-03-08T06:59:59.999Z")));
    // twice: the first
    assert_eq!(at("2026-11-01T01:30:00", "America/New_York"), Ok(ms("2026-11-01T05:30:00Z")));
    assert_eq!(at("2026-11-01T02:00:00", "America/New_York"), Ok(ms("2026-11-01T07:00:00Z")));
    let error = at("2011-12-30T12:00:00", "Pacific/Apia").unwrap_err();
    assert_eq!(error.to_string(), "this day never came in Pacific/Apia");
}

#[test]
fn an_instant_and_a_cron_line_of_the_same_local_time_agree() {
    let mut random = support::Random(7);
    for zone in chrono_tz::TZ_VARIANTS {
        for _ in 0..20 {
            let (month, day) = (random.within(1, 12), random.within(1, 28));
            let (hour, minute) = (random.within(0, 23), random.within(0, 59));
            let text = format!("{}-{month:02}-{day:02}T{hour:02}:{minute:02}:00", random.within(1990, 2037));
            let Ok(at) = At::parse(&text, Some(zone)) else {
                continue;
            };
            let line = cron(&format!("{minute} {hour} {day} {month} *"), zone.name());
            assert_eq!(line.latest(at.instant_ms()), Some(at.instant_ms()), "{text} in {zone}");
        }
    }
}

#[test]
fn texts_that_are_no_instants_say_why() {
    let message = |text: &str| At::parse(text, None).unwrap_err().to_string();
    let form = "not a date and time; write `2027-01-01T00:00:00`, or `2027-01-01T00:00:00Z` with an offset";
    for text in [
        "",
        "tomorrow",
        "2027",
        "2027-01-01",
        "2027-1-1T00:00:00",
        "2027-01-01T00:00:00 Europe/Paris",
        "2027-01-01T00:00:00+0900",
        "2027-01-01T00:00:00+09",
        "2027-01-01T00:00:00.",
        "2027-01-01T00:00:00.1234567890",
        "2027-01-01T00:00:00ZZ",
        "+2027-01-01T00:00:00",
        "12027-01-01T00:00:00",
        "2027‐01‐01T00:00:00",
        "２０２７-01-01T00:00:00",
    ] {
        assert_eq!(message(text), form, "{text}");
    }
    assert_eq!(message("2027-02-29T00:00:00"), "no calendar has the date `2027-02-29`");
    assert_eq!(message("2027-04-00T00:00:00"), "no calendar has the date `2027-04-00`");
    assert_eq!(message("2027-13-01T00:00:00"), "month 13 is out of range; months are 1-12");
    assert_eq!(message("2027-01-01T24:00:00"), "hour 24 is out of range; hours are 0-23");
    assert_eq!(message("2027-01-01T00:60:00"), "minute 60 is out of range; minutes are 0-59");
    assert_eq!(message("2016-12-31T23:59:60Z"), "second 60 is out of range; seconds are 0-59");
    assert_eq!(message("2027-01-01T00:00:00+24:00"), "offset hour 24 is out of range; offset hours are 0-23");
    assert_eq!(message("2027-01-01T00:00:00.0005"), "a time is no finer than a millisecond; write at most 3 digits");
    let text = " 2027-01-01T00:61:00";
    assert_eq!(At::parse(text, None).unwrap_err().caret(text), format!("{text}\n               ^^"));
}

#[test]
fn an_instant_is_one_slot() {
    let at = Schedule::from(At::parse("2027-01-01T00:00:00Z", None).unwrap());
    let slot = ms("2027-01-01T00:00:00Z");
    assert_eq!(at.next(i64::MIN), Some(slot));
    assert_eq!(at.next(slot - 1), Some(slot));
    assert_eq!(at.next(slot), None);
    assert_eq!(at.latest(slot - 1), None);
    assert_eq!(at.latest(slot), Some(slot));
    assert_eq!(at.latest(i64::MAX), Some(slot));
    assert_eq!(at.gap_after(slot), None);
    assert_eq!(at.shortest_gap(), None);
}

/// These texts are stored: a change breaks every installation.
#[test]
fn identities_are_the_same_for_ever() {
    let at = |text| Schedule::from(At::parse(text, None).unwrap());
    let cases = [
        (every("1h", "0s"), "every 3600000+0"),
        (every("7d", "4d"), "every 604800000+345600000"),
        (cron("0 8 * * MON-FRI", "Europe/Paris"), "cron unix Europe/Paris 0 8 * * MON-FRI"),
        (cron(" 0\t8   * * MON-FRI\n", "Europe/Paris"), "cron unix Europe/Paris 0 8 * * MON-FRI"),
        (cron("*/20 * * * * *", "UTC"), "cron unix UTC */20 * * * * *"),
        (cron("@daily ", "US/Pacific"), "cron unix US/Pacific @daily"),
        (quartz("0 0  12 ? * MON *", "UTC"), "cron quartz UTC 0 0 12 ? * MON *"),
        (at("2026-12-31T16:00:00+00:00"), "at 1798732800000"),
        (at("1969-12-31T23:59:59.999"), "at -1"),
    ];
    for (schedule, identity) in cases {
        assert_eq!(schedule.identity(), identity);
        assert_eq!(schedule.fingerprint(), format!("{identity} tzdata {}", zone::TZDATA_VERSION));
    }
}

#[test]
fn descriptions_are_plain_words() {
    let cases = [
        (every("1h", "0s"), "every 1h"),
        (every("90m", "5m"), "every 1h30m + 5m"),
        (cron("0  8 * * MON-FRI", "Europe/Paris"), "cron 0 8 * * MON-FRI (Europe/Paris)"),
        (quartz("0 0 12 ? * MON", "UTC"), "cron quartz 0 0 12 ? * MON (UTC)"),
        (At::parse("2027-01-01T00:00:00+09:00", None).unwrap().into(), "once at 2026-12-31T15:00:00Z"),
        (At::parse("0007-01-02T03:04:05.06", None).unwrap().into(), "once at 0007-01-02T03:04:05.060Z"),
    ];
    for (schedule, description) in cases {
        assert_eq!(schedule.describe(), description);
    }
}

#[test]
fn a_cron_line_knows_what_it_was_made_of() {
    let line = Cron::parse(" 0 8  * * * ", Dialect::Unix, Tz::Asia__Tokyo).unwrap();
    assert_eq!((line.expression(), line.dialect(), line.zone()), ("0 8 * * *", Dialect::Unix, Tz::Asia__Tokyo));
}

#[test]
fn a_hundred_thousand_schedules_fit_in_memory() {
    assert!(size_of::<Cron>() <= 104, "{}", size_of::<Cron>());
    assert!(size_of::<Schedule>() <= 104, "{}", size_of::<Schedule>());
}

#[test]
fn dialects_are_read_and_written() {
    for dialect in [Dialect::Unix, Dialect::Quartz] {
        assert_eq!(dialect.to_string().parse(), Ok(dialect));
    }
    assert_eq!(Dialect::default(), Dialect::Unix);
    let error: ParseError = "quarz".parse::<Dialect>().unwrap_err();
    assert_eq!(error.to_string(), "unknown dialect `quarz`; did you mean `quartz`?");
    assert_eq!(
        "vixie".parse::<Dialect>().unwrap_err().to_string(),
        "unknown dialect `vixie`; write `unix` or `quartz`"
    );
}

#[test]
fn a_caret_stays_on_one_line_below_a_cut_input() {
    let long = format!("{}10x{}", "1h".repeat(500), "1h".repeat(500));
    let error = interval::parse(&long).unwrap_err();
    let drawn = error.caret(&long);
    assert_eq!(drawn.lines().count(), 2);
    assert!(drawn.lines().all(|line| line.chars().count() <= 103), "{drawn}");
    // an input that is not the one the error came from
    for other in ["", "x", "☃☃☃"] {
        assert_eq!(error.caret(other).lines().count(), 2);
    }
    let list = format!("{},99,{} * * * *", "1".repeat(200), "2".repeat(200));
    let error = Cron::parse(&list, Dialect::Unix, Tz::UTC).unwrap_err();
    let drawn = error.caret(&list);
    let (text, caret) = drawn.split_once('\n').unwrap();
    assert!(text.starts_with('1') && text.ends_with('…') && caret.starts_with('^'), "{drawn}");
    let list = format!("{},99,{} * * * *", "1,".repeat(200), "2".repeat(200));
    let error = Cron::parse(&list, Dialect::Unix, Tz::UTC).unwrap_err();
    assert_eq!(error.message(), "an empty item in the list of minutes");
    let list = format!("{}99,{} * * * *", "1,".repeat(200), "2".repeat(200));
    let drawn = Cron::parse(&list, Dialect::Unix, Tz::UTC).unwrap_err().caret(&list);
    let (text, caret) = drawn.split_once('\n').unwrap();
    let under: String = text.chars().zip(caret.chars()).filter(|(_, c)| *c == '^').map(|(t, _)| t).collect();
    assert_eq!(under, "99", "{drawn}");
}

#[test]
fn advice_is_given_for_steps_that_leave_a_shorter_gap() {
    let advice = |line: &str, dialect| Cron::parse(line, dialect, Tz::UTC).unwrap().advice();
    let given = [
        ("*/45 * * * *", Dialect::Unix, "15 minutes; for an even interval write `every = \"45m\"`"),
        ("*/7 * * * *", Dialect::Unix, "4 minutes; for an even interval write `every = \"7m\"`"),
        ("0 */5 * * *", Dialect::Unix, "4 hours; for an even interval write `every = \"5h\"`"),
        ("*/59 * * * * *", Dialect::Unix, "1 second; for an even interval write `every = \"59s\"`"),
        ("0 */45 * * * ?", Dialect::Quartz, "15 minutes; for an even interval write `every = \"45m\"`"),
    ];
    for (line, dialect, end) in given {
        let advice = advice(line, dialect).unwrap();
        assert!(advice.ends_with(end), "{line}: {advice}");
    }
    for line in
        ["*/15 * * * *", "*/60 * * * *", "*/45 8 * * *", "0 */24 * * *", "*/7 * * * MON", "7 * * * *", "@hourly"]
    {
        assert_eq!(advice(line, Dialect::Unix), None, "{line}");
    }
}
