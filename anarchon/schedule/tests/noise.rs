//! Texts and instants that nobody should write: everything is an answer or an error, never a panic and never a long
//! search.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use anarchon_schedule::{At, Cron, Dialect, ParseError, Schedule, interval, zone};
use support::Random;
use zone::Tz;

const ENDS: [i64; 12] = [
    i64::MIN,
    i64::MIN + 1,
    -62_135_596_800_001,
    -1_000,
    -1,
    0,
    999,
    253_402_300_799_999,
    8_210_266_876_799_999,
    8_210_266_876_800_000,
    i64::MAX - 1,
    i64::MAX,
];

fn check_error(text: &str, error: &ParseError) {
    if let Some(span) = error.span() {
        assert!(text.get(span.clone()).is_some(), "{text:?}: {span:?} cuts a character");
    }
    let said = error.to_string();
    assert!(said.len() < 400 && !said.contains(char::is_control) && !said.ends_with('.'), "{text:?}: {said:?}");
    assert_eq!(error.caret(text).lines().count(), 2, "{text:?}");
}

fn check_schedule(schedule: &Schedule, random: &mut Random) {
    let anywhere = random.next() as i64;
    for at in ENDS.into_iter().chain([anywhere]) {
        let (next, latest) = (schedule.next(at), schedule.latest(at));
        assert!(next.is_none_or(|slot| slot > at), "{schedule:?} after {at}: {next:?}");
        assert!(latest.is_none_or(|slot| slot <= at), "{schedule:?} at {at}: {latest:?}");
        if let Some(slot) = next {
            assert_eq!(schedule.latest(slot), next, "{schedule:?} after {at}");
        }
        if let Some(slot) = latest.filter(|slot| *slot > i64::MIN) {
            assert_eq!(schedule.next(slot - 1), latest, "{schedule:?} at {at}");
        }
        let _ = schedule.gap_after(at);
    }
}

fn check(text: &str, random: &mut Random) {
    let zone = chrono_tz::TZ_VARIANTS[random.below(chrono_tz::TZ_VARIANTS.len() as u64) as usize];
    let parsed = [Dialect::Unix, Dialect::Quartz].map(|dialect| Cron::parse(text, dialect, zone).map(Schedule::from));
    let instants = [None, Some(zone)].map(|zone| At::parse(text, zone).map(Schedule::from));
    for parsed in parsed.into_iter().chain(instants) {
        match parsed {
            Ok(schedule) => check_schedule(&schedule, random),
            Err(error) => check_error(text, &error),
        }
    }
    if let Err(error) = interval::parse(text) {
        check_error(text, &error);
    }
    // the search for a zone that may be meant looks at all of them
    if random.below(20) == 0
        && let Err(error) = zone::parse(text)
    {
        check_error(text, &error);
    }
}

#[test]
fn random_bytes_are_refused_without_a_panic() {
    let mut random = Random(9);
    for _ in 0..3_000 {
        let bytes: Vec<u8> = (0..random.below(40)).map(|_| random.next() as u8).collect();
        check(&String::from_utf8_lossy(&bytes), &mut random);
    }
}

#[test]
fn lines_made_of_the_right_signs_are_read_or_refused() {
    let signs = [
        "*",
        "?",
        ",",
        "-",
        "/",
        "#",
        "L",
        "W",
        "LW",
        "@",
        "\t",
        "0",
        "1",
        "2",
        "5",
        "7",
        "10",
        "31",
        "59",
        "60",
        "JAN",
        "feb",
        "SUN",
        "fri",
        "2026",
        "\u{a0}",
        "é",
        "@daily",
        "4294967296",
        "00",
    ];
    let common = ["*", "*", "*/2", "1", "2-5", "1,7"];
    let mut random = Random(10);
    let mut read = 0;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..random.within(5, 7) {
            if random.below(3) > 0 {
                text.push_str(random.pick(&common));
            } else {
                text.extend((0..=random.below(3)).map(|_| random.pick(&signs)));
            }
            text.push(' ');
        }
        check(&text, &mut random);
        read += usize::from(Cron::parse(&text, Dialect::Unix, Tz::UTC).is_ok());
    }
    assert!(read > 1_000, "only {read} lines were read");
}

#[test]
fn good_texts_with_one_sign_changed_are_read_or_refused() {
    let good = [
        "0 8 * * MON-FRI",
        "*/15 9-17 1,15 */3 5#3",
        "30 0 12 L-3 FEB 6L",
        "0 0 1W,LW 1-12/2 ?",
        "0 0/30 8-10 ? * 2-6 2026-2030",
        "@weekly",
        "2027-01-01T00:00:00.250+09:00",
        "1w2d3h4m5s6ms",
        "America/New_York",
    ];
    let mut random = Random(11);
    for _ in 0..12_000 {
        let mut chars: Vec<char> = random.pick(&good).chars().collect();
        let at = random.below(chars.len() as u64) as usize;
        let sign = *random.pick(&[&'*', &'/', &'-', &',', &' ', &'0', &'9', &'L', &'W', &'#', &'\0', &'☃', &'Z', &':']);
        match random.below(3) {
            0 => chars[at] = sign,
            1 => chars.insert(at, sign),
            _ => drop(chars.remove(at)),
        }
        let text: String = chars.into_iter().collect();
        check(&text, &mut random);
    }
}

#[test]
fn inputs_of_a_hundred_kilobytes_are_read_or_refused_in_one_pass() {
    let mut random = Random(12);
    let long = 100_000;
    let units = [
        " ", "\t", "\n", "*", ",", "1,", "*,", "0-59/1,", "-", "/", "#", "9", "0", "L,", "1W,", "MON,", "☃", "\0",
        "* ", "@", "@daily ", "1h", "9m", "Europe/", "2027-",
    ];
    for unit in units {
        let many = unit.repeat(long / unit.len());
        for text in [many.clone(), format!("{many}1 * * * *"), format!("* * * * {many}1"), format!("1{many}")] {
            check(&text, &mut random);
        }
    }
    let list = format!("{}0 0 * * *", "0,".repeat(long / 2));
    let schedule = Schedule::from(Cron::parse(&list, Dialect::Unix, Tz::UTC).unwrap());
    assert_eq!(schedule.next(0), Some(86_400_000));
}

#[test]
fn schedules_answer_at_the_ends_of_time() {
    let mut random = Random(13);
    for zone in ["UTC", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca"] {
        for line in ["* * * * * *", "0 0 29 2 *", "30 2 * * *", "0 0 * 2 SUN#5", "*/7 1-3 L * ?"] {
            check_schedule(&support::cron(line, zone), &mut random);
        }
        check_schedule(&support::quartz("0 0 0 1 1 ? 2100", zone), &mut random);
    }
    // the last second that has a number in milliseconds, and none after it
    let secondly = support::cron("* * * * * *", "Asia/Tokyo");
    assert_eq!(secondly.next(i64::MAX), None);
    assert_eq!(secondly.next(i64::MAX - 1_000), Some(i64::MAX / 1_000 * 1_000));
    assert_eq!(secondly.latest(i64::MAX), Some(i64::MAX / 1_000 * 1_000));
    assert_eq!(secondly.latest(i64::MIN), None);
}
