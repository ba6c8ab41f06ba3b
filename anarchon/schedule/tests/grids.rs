//! Intervals: their text, and the grid that all instances share.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::time::Duration;

use anarchon_schedule::{Every, interval};
use support::{Random, every, expect, ms};

/// taskforcesh/bullmq#2966 and #2991, go-co-op/gocron#841, riverqueue/river#791: each node started its own count.
#[test]
fn a_grid_is_anchored_at_the_epoch_whenever_it_is_asked() {
    expect(
        &every("7h", "0s"),
        "2026-01-01T00:00:00Z",
        &["2026-01-01T07:00:00Z", "2026-01-01T14:00:00Z", "2026-01-01T21:00:00Z", "2026-01-02T04:00:00Z"],
    );
    expect(
        &every("50m", "0s"),
        "2026-01-01T00:00:00Z",
        &["2026-01-01T00:40:00Z", "2026-01-01T01:30:00Z", "2026-01-01T02:20:00Z"],
    );
    expect(&every("25h", "0s"), "2026-01-01T00:00:00Z", &["2026-01-01T04:00:00Z", "2026-01-02T05:00:00Z"]);
}

#[test]
fn a_grid_of_seven_days_falls_on_thursdays_and_the_offset_moves_it() {
    expect(&every("7d", "0s"), "2026-01-01T00:00:00Z", &["2026-01-08T00:00:00Z", "2026-01-15T00:00:00Z"]);
    expect(&every("1w", "4d"), "2026-01-01T00:00:00Z", &["2026-01-05T00:00:00Z", "2026-01-12T00:00:00Z"]);
    expect(&every("1h", "5m"), "2026-01-01T00:00:00Z", &["2026-01-01T00:05:00Z", "2026-01-01T01:05:00Z"]);
}

/// riverqueue/river#284, node-red cron-plus#108: counted from the end of each run, a grid drifts.
#[test]
fn the_next_slot_counts_from_the_grid_and_never_from_the_asking() {
    let grid = every("10s", "0s");
    let mut slot = ms("2026-01-01T00:00:00Z");
    for n in 1..=1_000 {
        // asked some milliseconds late each time
        slot = grid.next(slot + 137).unwrap();
        assert_eq!(slot, ms("2026-01-01T00:00:00Z") + n * 10_000);
    }
}

/// kubernetes/kubernetes#42649, #36311 and #45825: more than a hundred missed slots and the job was stuck.
#[test]
fn the_newest_of_a_billion_missed_slots_is_calculated() {
    let grid = every("100ms", "0s");
    let (last_run, now) = (ms("2000-01-01T00:00:00Z"), ms("2026-01-01T00:00:00.099Z"));
    assert!((now - last_run) / 100 > 1_000_000_000);
    assert_eq!(grid.latest(now), Some(ms("2026-01-01T00:00:00Z")));
    let minutely = support::cron("* * * * *", "America/New_York");
    assert_eq!(minutely.latest(now), Some(ms("2026-01-01T00:00:00Z")));
    assert_eq!(minutely.next(last_run), Some(last_run + 60_000));
}

/// mvniekerk/tokio-cron-scheduler#113: a time in the past ended the job.
#[test]
fn there_is_always_a_first_grid_point_after_now() {
    let grid = every("1m", "0s");
    for now in [-1, 0, 1, 59_999, 60_000, ms("2026-01-01T00:00:00.001Z")] {
        let next = grid.next(now).unwrap();
        assert!(next > now && next - now <= 60_000 && next % 60_000 == 0, "{now}: {next}");
    }
}

#[test]
fn a_grid_is_right_on_both_sides_of_the_epoch() {
    let grid = every("1h", "10m");
    assert_eq!(grid.latest(0), Some(-3_000_000));
    assert_eq!(grid.next(-3_000_001), Some(-3_000_000));
    assert_eq!(grid.next(-3_000_000), Some(600_000));
    assert_eq!(grid.gap_after(-3_000_000), Some(Duration::from_secs(3_600)));
    assert_eq!(grid.shortest_gap(), Some(Duration::from_secs(3_600)));
}

#[test]
fn the_ends_of_time_have_no_slot_beyond_and_no_panic() {
    let mut random = Random(5);
    for _ in 0..2_000 {
        let interval = Duration::from_millis(100 + random.below(36_525 * 86_400_000 - 100));
        let offset = Duration::from_millis(random.below(interval.as_millis() as u64));
        let grid = anarchon_schedule::Schedule::from(Every::new(interval, offset).unwrap());
        for end in [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX] {
            assert!(grid.next(end).is_none_or(|slot| slot > end), "{grid:?} after {end}");
            assert!(grid.latest(end).is_none_or(|slot| slot <= end), "{grid:?} at {end}");
            if let Some(slot) = grid.next(end) {
                assert_eq!(grid.latest(slot), Some(slot), "{grid:?} at {slot}");
            }
        }
        assert_eq!(grid.next(i64::MAX), None);
    }
}

/// rustango#1256: an interval of zero took the loop down.
#[test]
fn an_interval_of_zero_or_below_a_tenth_of_a_second_is_refused() {
    let refused = |interval, offset| Every::new(interval, offset).unwrap_err().to_string();
    let ms = Duration::from_millis;
    assert_eq!(refused(ms(0), ms(0)), "an interval of `0s` is too short; the shortest is `100ms`");
    assert_eq!(refused(ms(99), ms(0)), "an interval of `99ms` is too short; the shortest is `100ms`");
    assert_eq!(refused(Duration::MAX, ms(0)), "18446744073709551615.999999999s is not a whole number of milliseconds");
    assert_eq!(refused(Duration::from_secs(u64::MAX), ms(0)), "this interval is too long; the longest is `36525d`");
    assert_eq!(refused(Duration::from_micros(100_500), ms(0)), "100.5ms is not a whole number of milliseconds");
    assert_eq!(refused(ms(200), Duration::from_nanos(1)), "1ns is not a whole number of milliseconds");
    let too_long =
        "an offset of `1h` is too long for an interval of `1h`; the offset must be shorter than the interval";
    assert_eq!(refused(ms(3_600_000), ms(3_600_000)), too_long);
    assert!(Every::new(ms(100), ms(99)).is_ok());
    assert!(Every::new(Duration::from_secs(36_525 * 86_400), ms(0)).is_ok());
}

#[test]
fn intervals_are_read_as_people_write_them() {
    let cases = [
        ("500ms", 500),
        ("10s", 10_000),
        ("90m", 5_400_000),
        ("1h30m", 5_400_000),
        ("40d", 3_456_000_000),
        ("2w", 1_209_600_000),
        ("1w2d3h4m5s6ms", 788_645_006),
        ("0s", 0),
        ("007s", 7_000),
        ("36525d", 3_155_760_000_000),
    ];
    for (text, ms) in cases {
        assert_eq!(interval::parse(text), Ok(Duration::from_millis(ms)), "{text}");
    }
}

#[test]
fn other_texts_are_no_intervals() {
    let texts = [
        "", " ", "10", "s", "10x", "-1s", "+1s", "1.5h", "1 h", " 1h", "1h ", "1h 30m", "1H", "1min", "½h", "１s",
        "1h30", "1s\0",
    ];
    for text in texts {
        let error = interval::parse(text).unwrap_err();
        let expected = "not an interval; write a number and a unit: `500ms`, `30s`, `10m`, `1h` or `1d`";
        assert_eq!(error.to_string(), expected, "{text:?}");
        assert_eq!(error.span(), Some(0..text.len()));
    }
}

#[test]
fn units_go_from_large_to_small_and_each_once() {
    let error = interval::parse("30m1h").unwrap_err();
    assert_eq!(error.to_string(), "`h` after `30m`; write each unit once, from large to small: `1h30m`");
    assert_eq!(error.caret("30m1h"), "30m1h\n   ^^");
    assert_eq!(interval::parse("1s1s").unwrap_err().message(), "`s` after `1s`");
}

/// uutils/coreutils#5149 and #7222: a panic in the arithmetic of long times.
#[test]
fn an_interval_past_a_hundred_years_is_an_error_and_no_panic() {
    let long = format!("{}m", "9".repeat(38));
    for text in
        ["68888888888888s", long.as_str(), "36526d", "36525d1ms", "18446744073709551615w", "99999999999999999999ms"]
    {
        let error = interval::parse(text).unwrap_err();
        assert_eq!(error.to_string(), "this interval is too long; the longest is `36525d`", "{text}");
    }
}

#[test]
fn an_interval_that_was_written_is_read_again() {
    let mut random = Random(6);
    for n in 0..10_000_u64 {
        let ms = random.below(10_u64.pow((n % 12) as u32 + 1));
        let interval = Duration::from_millis(ms);
        assert_eq!(interval::parse(&interval::format(interval)), Ok(interval));
    }
    assert_eq!(interval::format(Duration::from_millis(788_645_006)), "9d3h4m5s6ms");
    assert_eq!(interval::format(Duration::from_micros(999)), "0s");
    assert_eq!(interval::format(Duration::MAX), "213503982334601d7h15s999ms");
}

#[test]
fn a_grid_knows_what_it_was_made_of() {
    let grid = Every::new(Duration::from_secs(3_600), Duration::from_millis(1_500)).unwrap();
    assert_eq!((grid.interval(), grid.offset()), (Duration::from_secs(3_600), Duration::from_millis(1_500)));
}
