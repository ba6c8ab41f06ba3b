//! What cron lines do when clocks change, one reported failure of a scheduler per test. Instants were taken from the
//! zone tables by brute force.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::process::Command;

use support::{between, cron, expect, ms, quartz, slots, utc};

/// kelektiv/node-cron#563: skipped in spring.
#[test]
fn fixed_time_in_spring_gap_runs_once_right_after() {
    expect(
        &cron("30 2 * * *", "America/New_York"),
        "2026-03-07T12:00:00-05:00",
        &["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"],
    );
}

/// kelektiv/node-cron#563: fired twice in autumn.
#[test]
fn fixed_time_in_the_repeated_hour_runs_in_its_first_pass_only() {
    expect(
        &cron("30 1 * * *", "America/New_York"),
        "2026-10-31T12:00:00-04:00",
        &["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"],
    );
}

/// Hexagon/croner-rust#16: a panic over a time that does not exist.
#[test]
fn asking_just_before_a_gap_is_no_panic() {
    expect(&cron("0 2 * * *", "America/New_York"), "2025-03-09T01:30:00-05:00", &["2025-03-09T07:00:00Z"]);
}

/// kubernetes/kubernetes#121594: the job ran twice.
#[test]
fn two_oclock_in_berlin_runs_once_on_the_autumn_day() {
    expect(
        &cron("0 2 * * *", "Europe/Berlin"),
        "2023-10-28T12:00:00Z",
        &["2023-10-29T00:00:00Z", "2023-10-30T01:00:00Z"],
    );
}

/// HangfireIO/Cronos#36: asked at the very instant of the slot, the answer was next week.
#[test]
fn a_slot_made_up_after_a_gap_is_found_when_asked_at_that_instant() {
    let sundays = cron("0 2 * * 0", "Europe/Berlin");
    let slot = ms("2021-03-28T01:00:00Z");
    assert_eq!(sundays.next(ms("2021-03-28T00:59:00Z")), Some(slot));
    assert_eq!(sundays.next(slot - 1), Some(slot));
    assert_eq!(sundays.latest(slot), Some(slot));
}

/// HangfireIO/Cronos#71: between the two 02:00s the day's slot is over.
#[test]
fn asked_between_the_two_passes_a_fixed_time_is_over_for_the_day() {
    let sundays = quartz("0 0 2 ? * SUN", "Europe/Berlin");
    expect(&sundays, "2024-10-27T00:30:00Z", &["2024-11-03T01:00:00Z"]);
    expect(&cron("0 0 2 * * 0", "Europe/Berlin"), "2024-10-27T00:30:00Z", &["2024-11-03T01:00:00Z"]);
    assert_eq!(sundays.latest(ms("2024-10-27T00:30:00Z")), Some(ms("2024-10-27T00:00:00Z")));
}

/// celery/celery#10107: not due in the second pass.
#[test]
fn an_hourly_line_is_due_in_both_passes_of_the_repeated_hour() {
    let hourly = cron("0 * * * *", "US/Pacific");
    assert_eq!(hourly.latest(ms("2026-11-01T09:00:00Z")), Some(ms("2026-11-01T09:00:00Z")));
    expect(&hourly, "2026-11-01T07:59:59Z", &["2026-11-01T08:00:00Z", "2026-11-01T09:00:00Z"]);
}

/// zslayton/cron#115 and #145: the second pass was lost, or the iterator stuck in the first.
#[test]
fn half_hours_go_through_both_passes_in_the_order_of_time() {
    let expected = ["2026-11-01T05:00:00Z", "2026-11-01T05:30:00Z", "2026-11-01T06:00:00Z", "2026-11-01T06:30:00Z"];
    expect(&quartz("0 0/30 * * * * *", "America/New_York"), "2026-11-01T04:30:00Z", &expected);
    expect(&cron("0/30 * * * *", "America/New_York"), "2026-11-01T04:30:00Z", &expected);
}

/// robfig/cron#12: the repeated hour came again and again.
#[test]
fn each_hour_of_the_autumn_day_comes_once_in_los_angeles() {
    expect(
        &cron("@hourly", "America/Los_Angeles"),
        "2014-11-02T07:30:00Z",
        &["2014-11-02T08:00:00Z", "2014-11-02T09:00:00Z", "2014-11-02T10:00:00Z"],
    );
}

/// robfig/cron#12: the spring day of a daily job was skipped.
#[test]
fn two_oclock_in_los_angeles_runs_at_three_on_the_spring_day() {
    expect(&cron("0 0 2 * * *", "America/Los_Angeles"), "2014-03-08T20:00:00Z", &["2014-03-09T10:00:00Z"]);
}

/// cronie-crond/cronie#218: a week was taken for seven times 86,400 seconds.
#[test]
fn a_day_of_23_hours_does_not_move_a_weekly_time() {
    expect(&cron("0 12 * * 0", "Europe/Berlin"), "2022-03-24T12:00:00+01:00", &["2022-03-27T10:00:00Z"]);
}

/// mvniekerk/tokio-cron-scheduler#107: the offset of the asking day was used for the next.
#[test]
fn the_offset_is_that_of_the_slots_own_day() {
    expect(&cron("1 0 18 * * *", "Europe/Dublin"), "2025-03-29T18:00:01Z", &["2025-03-30T17:00:01Z"]);
}

/// mvniekerk/tokio-cron-scheduler#105: fired at eight in UTC as well.
#[test]
fn eight_in_shanghai_is_midnight_utc_and_nothing_else() {
    let slots = between(&cron("0 0 8 * * *", "Asia/Shanghai"), "2026-01-14T23:59:59Z", "2026-01-16T23:59:59Z");
    assert_eq!(slots, ["2026-01-15T00:00:00Z", "2026-01-16T00:00:00Z"]);
}

/// cronie-crond/cronie#124: a job in UTC never ran because the host's clock changed.
#[test]
fn a_time_in_utc_runs_while_clocks_in_london_change() {
    expect(&cron("30 1 * * *", "UTC"), "2022-10-29T12:00:00Z", &["2022-10-30T01:30:00Z", "2022-10-31T01:30:00Z"]);
}

/// Hexagon/croner#284: on a host in Sydney an hourly job in UTC left out an hour.
#[test]
fn hours_in_utc_are_not_left_out_while_clocks_in_sydney_change() {
    expect(&cron("0 * * * *", "UTC"), "2025-10-05T02:00:00Z", &["2025-10-05T03:00:00Z", "2025-10-05T04:00:00Z"]);
}

/// kelektiv/node-cron#174: missed in spring and repeated in autumn, because clocks changed where the host was.
#[test]
fn a_zone_without_clock_changes_has_one_slot_a_day_all_year() {
    let slots = slots(&cron("30 1 * * *", "Asia/Tokyo"), ms("2026-01-01T00:00:00Z"), 365);
    assert!(slots.windows(2).all(|pair| pair[1] - pair[0] == 86_400_000));
}

/// The three reports above in one: these tests again, in processes whose host has another zone.
#[test]
fn the_zone_of_the_host_changes_nothing() {
    const MARK: &str = "ANARCHON_TEST_HOST_ZONE";
    if std::env::var_os(MARK).is_some() {
        return;
    }
    for zone in ["America/New_York", "Australia/Sydney", "Europe/London", "Pacific/Apia", "NoSuchZone"] {
        let run = Command::new(std::env::current_exe().unwrap()).env("TZ", zone).env(MARK, "1").output().unwrap();
        assert!(run.status.success(), "with TZ={zone}:\n{}", String::from_utf8_lossy(&run.stdout));
    }
}

/// taichino/croniter#48: an extra run at seven.
#[test]
fn a_monday_after_the_autumn_change_has_one_run() {
    let slots = between(&cron("0 8 * * 1", "Europe/Amsterdam"), "2017-10-29T12:00:00Z", "2017-11-05T12:00:00Z");
    assert_eq!(slots, ["2017-10-30T07:00:00Z"]);
}

/// kelektiv/node-cron#118, harrisiirak/cron-parser#25 and #100: an endless loop around a midnight that doesn't exist.
#[test]
fn a_missing_midnight_on_the_way_is_no_obstacle() {
    expect(&cron("0 0 12 11,26 * *", "America/Sao_Paulo"), "2014-10-12T00:00:00-03:00", &["2014-10-26T14:00:00Z"]);
}

/// jmrozanec/cron-utils#332: an endless loop over "does this instant match".
#[test]
fn an_instant_that_is_no_slot_is_not_its_own_latest() {
    let daily = cron("0 6 * * *", "America/Santiago");
    let asked = ms("2018-08-12T03:00:00-03:00");
    assert_ne!(daily.latest(asked), Some(asked));
    expect(&daily, "2018-08-12T03:00:00-03:00", &["2018-08-12T09:00:00Z"]);
}

/// elizaOS/eliza#11100: fired twice, for the repeated stretch was taken to be an hour long.
#[test]
fn a_repeated_half_hour_has_one_slot_on_lord_howe() {
    expect(
        &cron("45 1 * * *", "Australia/Lord_Howe"),
        "2026-04-04T12:00:00+11:00",
        &["2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"],
    );
}

/// case-computers#10: ten minutes of jitter, added to a time on the clock beside a gap, came an hour late.
#[test]
fn a_slot_is_an_instant_so_jitter_beside_a_gap_is_just_added() {
    let slot = cron("55 1 * * *", "America/New_York").next(ms("2026-03-08T00:00:00-05:00")).unwrap();
    assert_eq!(utc(slot + 600_000), "2026-03-08T07:05:00Z");
}

/// agronholm/apscheduler#1036 and #115: stuck at a clock change.
#[test]
fn a_step_of_seven_seconds_goes_on_over_both_clock_changes() {
    let schedule = cron("*/7 * * * * *", "America/New_York");
    for change in ["2026-03-08T07:00:00Z", "2026-11-01T06:00:00Z"] {
        let slots = slots(&schedule, ms(change) - 120_000, 36);
        assert!(slots[35] > ms(change) + 100_000);
        for pair in slots.windows(2) {
            let gap = (pair[1] - pair[0]) / 1000;
            let restart = pair[1] % 60_000 == 0;
            assert_eq!(gap, if restart { 4 } else { 7 }, "at {}", utc(pair[1]));
        }
    }
}

#[test]
fn a_gap_of_half_an_hour_is_made_up_for_after_half_an_hour() {
    expect(&cron("15 2 * * *", "Australia/Lord_Howe"), "2026-10-03T12:00:00+10:30", &["2026-10-03T15:30:00Z"]);
}

#[test]
fn quarters_follow_the_clock_through_a_repeated_half_hour() {
    expect(
        &cron("*/15 * * * *", "Australia/Lord_Howe"),
        "2026-04-04T14:20:00Z",
        &["2026-04-04T14:30:00Z", "2026-04-04T14:45:00Z", "2026-04-04T15:00:00Z"],
    );
}

#[test]
fn a_missing_midnight_in_beirut_runs_at_one() {
    expect(&cron("0 0 * * *", "Asia/Beirut"), "2026-03-28T12:00:00Z", &["2026-03-28T22:00:00Z"]);
}

#[test]
fn a_repeated_last_hour_of_the_day_in_beirut_has_one_slot() {
    let slots = between(&cron("30 23 * * *", "Asia/Beirut"), "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z");
    assert_eq!(slots, ["2026-10-24T20:30:00Z"]);
}

#[test]
fn hours_in_berlin_follow_each_other_over_the_gap() {
    expect(
        &cron("0 * * * *", "Europe/Berlin"),
        "2026-03-28T23:30:00Z",
        &["2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"],
    );
}

#[test]
fn half_hours_in_new_york_follow_each_other_over_the_gap() {
    expect(
        &cron("*/30 * * * *", "America/New_York"),
        "2026-03-08T01:15:00-05:00",
        &["2026-03-08T06:30:00Z", "2026-03-08T07:00:00Z", "2026-03-08T07:30:00Z"],
    );
}

#[test]
fn two_hours_left_out_at_once_are_one_slot_at_troll() {
    // in summer the station goes from +00 to +02: 01:00 becomes 03:00
    expect(
        &cron("0,30 1,2 * * *", "Antarctica/Troll"),
        "2026-03-29T00:00:00Z",
        &["2026-03-29T01:00:00Z", "2026-03-29T23:00:00Z"],
    );
}

#[test]
fn three_hours_left_out_are_made_up_for_and_a_day_is_not() {
    // Casey went from +08 to +11 at one in the morning of 2020-10-04
    expect(
        &cron("30 2 * * *", "Antarctica/Casey"),
        "2020-10-03T12:00:00Z",
        &["2020-10-03T16:01:00Z", "2020-10-04T15:30:00Z"],
    );
    // there was no 30 December 2011 in Samoa
    let slots = between(&cron("0 12 * * *", "Pacific/Apia"), "2011-12-29T00:00:00-10:00", "2012-01-01T00:00:00+14:00");
    assert_eq!(slots, ["2011-12-29T22:00:00Z", "2011-12-30T22:00:00Z"]);
}

#[test]
fn fixed_hours_leave_out_the_second_pass_and_wild_ones_do_not() {
    let day = ("2026-11-01T00:00:00-04:00", "2026-11-01T03:00:00-05:00");
    assert_eq!(between(&cron("0 0-23 * * *", "America/New_York"), day.0, day.1).len(), 3);
    assert_eq!(between(&cron("0 * * * *", "America/New_York"), day.0, day.1).len(), 4);
}

#[test]
fn a_day_that_came_twice_has_its_fixed_times_once() {
    // Kwajalein went over the date line in 1969 and had 30 September twice, but for one hour
    let zone = "Pacific/Kwajalein";
    let range = ("1969-09-29T12:00:00Z", "1969-10-02T12:00:00Z");
    let noons = between(&cron("0 12 * * *", zone), range.0, range.1);
    assert_eq!(noons, ["1969-09-30T01:00:00Z", "1969-10-02T00:00:00Z"]);
    let wild = between(&cron("*/60 12 * * *", zone), range.0, range.1);
    assert_eq!(wild, ["1969-09-30T01:00:00Z", "1969-10-01T00:00:00Z", "1969-10-02T00:00:00Z"]);
}

#[test]
fn clocks_change_for_ever_in_new_york_up_to_the_end_of_the_tables() {
    expect(&cron("30 2 * * *", "America/New_York"), "2099-03-07T12:00:00Z", &["2099-03-08T07:00:00Z"]);
}
