//! What cron lines mean and which are refused, one reported failure of a scheduler per test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use anarchon_schedule::{Cron, Dialect, Schedule, zone::Tz};
use support::{between, cron, expect, ms, quartz, refused, slots, utc};

const YEAR: (&str, &str) = ("2025-12-31T23:59:59Z", "2026-12-31T23:59:59Z");

/// The two lines have the same slots in 2026.
#[track_caller]
fn same(a: &str, b: &str) {
    assert_eq!(between(&cron(a, "UTC"), YEAR.0, YEAR.1), between(&cron(b, "UTC"), YEAR.0, YEAR.1), "`{a}` and `{b}`");
}

/// The weekdays (Sunday = 0) that a daily line names.
fn weekdays(line: &str) -> Vec<i64> {
    let mut days: Vec<i64> = slots(&cron(line, "UTC"), ms("2026-01-04T00:00:00Z") - 1, 20)
        .iter()
        .map(|slot| (slot / 86_400_000 + 4) % 7)
        .collect();
    days.sort_unstable();
    days.dedup();
    days
}

/// cloudflare/saffron#32: refused.
#[test]
fn zero_is_sunday() {
    expect(&cron("0 0 * * 0", "UTC"), "2026-01-01T00:00:00Z", &["2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z"]);
}

/// garethgeorge/backrest#1104 and robfig/cron#522: a next run in the year 1, so backups ran without end.
#[test]
fn seven_is_sunday_and_not_the_year_one() {
    expect(&cron("0 0 * * 7", "UTC"), "2026-01-01T00:00:00Z", &["2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z"]);
    same("0 0 * * 7", "0 0 * * 0");
}

/// The same reports: "no next time" is an answer of its own, and never stands for now.
#[test]
fn a_schedule_that_is_over_has_no_next_slot() {
    let over = quartz("0 0 0 1 1 ? 2020", "UTC");
    assert_eq!(over.next(ms("2026-01-01T00:00:00Z")), None);
    assert_eq!(over.gap_after(ms("2020-01-01T00:00:00Z")), None);
    assert_eq!(over.latest(ms("2026-01-01T00:00:00Z")), Some(ms("2020-01-01T00:00:00Z")));
    assert_eq!(over.latest(ms("2019-12-31T23:59:59Z")), None);
}

/// HangfireIO/Cronos#95: never fired.
#[test]
fn a_range_from_seven_starts_on_the_sunday_before_monday() {
    assert_eq!(weekdays("0 0 * * 7-1/2"), [0]);
    assert_eq!(weekdays("0 0 * * 7-2"), [0, 1, 2]);
    assert_eq!(weekdays("0 0 * * 7-7"), [0]);
    assert_eq!(weekdays("0 0 * * 7-0"), [0]);
    assert_eq!(weekdays("0 0 * * 7-6"), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(weekdays("0 0 * * SUN-7"), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(weekdays("0 0 * * 5-7"), [0, 5, 6]);
    assert_eq!(weekdays("0 0 * * 0-7"), [0, 1, 2, 3, 4, 5, 6]);
}

/// harrisiirak/cron-parser#438: Sunday came with it.
#[test]
fn a_step_from_tuesday_ends_on_saturday() {
    assert_eq!(weekdays("0 9 * * 2/2"), [2, 4, 6]);
    assert_eq!(weekdays("0 9 * * 7/3"), [0, 3, 6]);
}

/// cronie-crond/cronie#200 and agent-os#1063: an empty set, or refused.
#[test]
fn a_range_of_names_may_end_on_sunday() {
    assert_eq!(weekdays("0 0 * * sat-sun"), [0, 6]);
    assert_eq!(weekdays("0 0 * * MON-SUN"), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(weekdays("0 0 * * MON-SUN/2"), [0, 1, 3, 5]);
}

/// kelektiv/node-cron#602: the ends were swapped, which made 21 wrong runs a day.
#[test]
fn a_backwards_range_goes_over_midnight_and_is_not_swapped() {
    same("0 22-2 * * *", "0 22,23,0,1,2 * * *");
    same("0 0 1 11-2 *", "0 0 1 11,12,1,2 *");
    same("58-2 * * * *", "58,59,0,1,2 * * * *");
    same("0 0 30-2 * *", "0 0 30,31,1,2 * *");
}

/// agent-os#479, ggcode#439 and #451: a part of a list was dropped, or the search ran for seconds.
#[test]
fn backwards_ranges_mean_the_same_alone_with_a_step_and_in_a_list() {
    same("0 0 * * 5-3/2", "0 0 * * 5,0,2");
    same("5,50-10 * * * *", "5,50,51,52,53,54,55,56,57,58,59,0,1,2,3,4,6,7,8,9,10 * * * *");
    same("0 20-4/3 * * *", "0 20,23,2 * * *");
}

/// harrisiirak/cron-parser#156 and orca#20202: four times too rare.
#[test]
fn a_step_from_a_value_goes_on_to_the_end_of_the_field() {
    expect(
        &cron("5/15 * * * *", "UTC"),
        "2026-01-15T10:00:00Z",
        &[
            "2026-01-15T10:05:00Z",
            "2026-01-15T10:20:00Z",
            "2026-01-15T10:35:00Z",
            "2026-01-15T10:50:00Z",
            "2026-01-15T11:05:00Z",
        ],
    );
}

/// zslayton/cron#110 and #122, OpenCCU#581: a step of 0 was accepted, and steps past the field meant something else.
#[test]
fn steps_of_nothing_and_steps_past_the_field_are_refused() {
    for line in [
        "0/0 * * * *",
        "*/61 * * * * *",
        "0 */25 * * *",
        "*/66 * * * *",
        "*/360 * * * *",
        "0 0 */32 * *",
        "0 0 1 */13 *",
    ] {
        assert!(refused(line).contains("is out of range; a step of"), "{line}: {}", refused(line));
    }
    assert_eq!(refused("0 0 * * */8"), "step 8 is out of range; a step of weekdays is 1 to 7");
    same("*/60 * * * *", "0 * * * *");
    same("0 0 */31 * *", "0 0 1 * *");
}

/// kelektiv/node-cron#303, cloudflare/workers-sdk#1708, mineos#109: reported as a fault for years, and it is what the
/// line says.
#[test]
fn a_step_that_does_not_divide_the_hour_starts_again_each_hour() {
    same("*/45 * * * *", "0,45 * * * *");
    let slots = slots(&cron("*/7 * * * *", "UTC"), ms("2026-01-15T10:00:00Z") - 1, 11);
    let gaps: Vec<i64> = slots.windows(2).map(|pair| (pair[1] - pair[0]) / 60_000).collect();
    assert_eq!(gaps, [7, 7, 7, 7, 7, 7, 7, 7, 4, 7]);
}

/// agent-os#665, breejs/later#38: the day fields were joined by "and".
#[test]
fn two_restricted_day_fields_are_joined_by_or() {
    expect(
        &cron("0 0 1,15 * 5", "UTC"),
        "2026-01-01T00:00:00Z",
        &["2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z", "2026-01-15T00:00:00Z"],
    );
}

/// The trap for those who bring their lines from Quartz or the `cron` crate.
#[test]
fn the_quartz_dialect_joins_the_day_fields_by_and() {
    // 1 January is a Thursday; the first Friday that is a 1st or a 15th comes in May
    expect(&quartz("0 0 0 1,15 * 6", "UTC"), "2026-01-01T00:00:00Z", &["2026-05-01T00:00:00Z", "2026-05-15T00:00:00Z"]);
}

/// Hexagon/croner#56: accepted, then searched for ever.
#[test]
fn a_star_before_a_number_is_refused() {
    assert_eq!(refused("* *1 * * *"), "`*1` is not an hour; hours are 0-23");
}

/// dragonmantank/cron-expression#168: read as the last Wednesday.
#[test]
fn lw_is_the_last_working_day() {
    expect(&cron("0 5 LW * *", "UTC"), "2023-10-01T00:00:00Z", &["2023-10-31T05:00:00Z", "2023-11-30T05:00:00Z"]);
    // 31 May 2026 is a Sunday
    expect(&cron("0 5 LW * *", "UTC"), "2026-05-01T00:00:00Z", &["2026-05-29T05:00:00Z"]);
}

/// beemhq/aws-cron-parser#2, bradymholt/cRonstrue#73: read as day 67.
#[test]
fn six_l_is_the_last_saturday() {
    expect(
        &cron("0 0 * * 6L", "UTC"),
        "2026-01-01T00:00:00Z",
        &["2026-01-31T00:00:00Z", "2026-02-28T00:00:00Z", "2026-03-28T00:00:00Z"],
    );
    same("0 0 * * 6L", "0 0 * * satl");
}

/// croner-rust, taichino/croniter#159: an error, or two matches.
#[test]
fn seven_is_sunday_for_the_nth_and_the_last_weekday_too() {
    same("0 0 * * 7#1", "0 0 * * 0#1");
    same("0 0 * * 7L", "0 0 * * SUNL");
    expect(&cron("0 0 * * 7#1", "UTC"), "2026-01-01T00:00:00Z", &["2026-01-04T00:00:00Z", "2026-02-01T00:00:00Z"]);
}

/// The same reports: months without a fifth Friday have none, and nothing takes its place.
#[test]
fn a_fifth_weekday_skips_the_months_without_one() {
    let fifth = between(&cron("0 0 * * FRI#5", "UTC"), YEAR.0, YEAR.1);
    assert_eq!(fifth, ["2026-01-30T00:00:00Z", "2026-05-29T00:00:00Z", "2026-07-31T00:00:00Z", "2026-10-30T00:00:00Z"]);
}

#[test]
fn the_nearest_working_day_never_leaves_its_month() {
    // 1 August 2026 is a Saturday, 31 May a Sunday, and February has no 30th
    expect(&cron("0 0 1W * *", "UTC"), "2026-07-15T00:00:00Z", &["2026-08-03T00:00:00Z", "2026-09-01T00:00:00Z"]);
    expect(&cron("0 0 31W * *", "UTC"), "2026-04-15T00:00:00Z", &["2026-05-29T00:00:00Z", "2026-07-31T00:00:00Z"]);
    expect(&cron("0 0 30W * *", "UTC"), "2026-02-01T00:00:00Z", &["2026-03-30T00:00:00Z"]);
    // a Saturday goes back to Friday, a Sunday on to Monday
    expect(&cron("0 0 15w * *", "UTC"), "2026-08-01T00:00:00Z", &["2026-08-14T00:00:00Z"]);
    expect(&cron("0 0 15W * *", "UTC"), "2026-11-01T00:00:00Z", &["2026-11-16T00:00:00Z"]);
}

/// jmrozanec/cron-utils#310 and #329, cronosjs#37, cron-plus#110, croncpp#7: an endless loop, or a negative wait.
#[test]
fn a_date_that_never_comes_is_refused_at_once() {
    for line in [
        "0 0 30 2 *",
        "0 0 31 4 *",
        "0 0 31 4,6 *",
        "0 0 31 2,4,6,9,11 *",
        "0 0 L-30 2 *",
        "0 0 30W 2 *",
        "0 0 L-30 4,6 *",
    ] {
        assert_eq!(refused(line), "this date never comes; no month that is named has such a day", "{line}");
    }
    // the first of the month is never a fifth Friday, and no month has both
    assert!(refused("0 0 */31 * FRI#5").starts_with("this date never comes"));
    let error = Cron::parse("0 0 0 30 2 ?", Dialect::Quartz, Tz::UTC).unwrap_err();
    assert_eq!(error.message(), "this date never comes");
    assert_eq!(error.span(), Some(6..12));
}

#[test]
fn a_date_that_comes_in_one_of_the_months_is_accepted() {
    expect(&cron("0 0 31 4,5 *", "UTC"), "2026-01-01T00:00:00Z", &["2026-05-31T00:00:00Z", "2027-05-31T00:00:00Z"]);
    // with a weekday to fall back on, 30 February is only a date that is no help
    expect(&cron("0 0 30 2 MON", "UTC"), "2026-01-01T00:00:00Z", &["2026-02-02T00:00:00Z"]);
}

#[test]
fn a_leap_day_on_a_given_weekday_is_found_forty_years_away() {
    // 29 February falls on a Sunday in 2032 and 2060, and because 2100 is no leap year then not before 2088 and 2128
    let sundays = cron("0 0 */28 2 SUN", "UTC");
    let leap_days: Vec<String> = slots(&sundays, ms("2030-01-01T00:00:00Z"), 60)
        .into_iter()
        .map(utc)
        .filter(|slot| slot.contains("-02-29"))
        .collect();
    assert_eq!(
        leap_days[..4],
        ["2032-02-29T00:00:00Z", "2060-02-29T00:00:00Z", "2088-02-29T00:00:00Z", "2128-02-29T00:00:00Z"]
    );
    let fifth = cron("0 0 * 2 SUN#5", "UTC");
    assert_eq!(fifth.next(ms("2088-03-01T00:00:00Z")), Some(ms("2128-02-29T00:00:00Z")));
    assert_eq!(fifth.latest(ms("2128-02-28T00:00:00Z")), Some(ms("2088-02-29T00:00:00Z")));
}

/// ever-works#2426: a line that never fires came in at run time. The same function serves macro and run time, so one
/// refusal is both.
#[test]
fn a_refusal_at_run_time_points_into_the_text_it_was_given() {
    let line = "  0 0 30 2 * ";
    let error = Cron::parse(line, Dialect::Unix, Tz::UTC).unwrap_err();
    assert_eq!(&line[error.span().unwrap()], "30 2 *");
    assert_eq!(error.caret(line), "  0 0 30 2 * \n      ^^^^^^");
}

/// zslayton/cron#121: a panic on the way from a leap day.
#[test]
fn a_year_far_away_is_reached_from_a_leap_day() {
    expect(&quartz("0 0 0 * * * 2100", "Etc/GMT-8"), "2024-02-29T10:00:00+08:00", &["2100-01-01T00:00:00+08:00"]);
}

/// zslayton/cron#116, croner-rust#31: none, or the wrong year.
#[test]
fn a_year_field_is_jumped_to() {
    expect(&quartz("0 5 17 1 6 ? 2022", "UTC"), "2021-10-27T00:00:00Z", &["2022-06-01T17:05:00Z"]);
    let eighties = quartz("0 0 0 1 1 ? 2080-2085", "UTC");
    expect(&eighties, "2026-01-01T00:00:00Z", &["2080-01-01T00:00:00Z", "2081-01-01T00:00:00Z"]);
    assert_eq!(eighties.latest(ms("2200-01-01T00:00:00Z")), Some(ms("2085-01-01T00:00:00Z")));
    assert_eq!(eighties.latest(ms("2085-06-01T00:00:00Z")), Some(ms("2085-01-01T00:00:00Z")));
    assert_eq!(eighties.latest(ms("2083-06-01T00:00:00Z")), Some(ms("2083-01-01T00:00:00Z")));
    assert_eq!(eighties.next(ms("2085-01-01T00:00:00Z")), None);
}

/// zslayton/cron ends with the year 2100; a line without a year does not.
#[test]
fn a_quartz_line_without_a_year_goes_on_after_2100() {
    expect(&quartz("0 0 0 1 1 ?", "UTC"), "2100-06-01T00:00:00Z", &["2101-01-01T00:00:00Z"]);
    expect(&quartz("0 0 0 1 1 ? *", "UTC"), "2100-06-01T00:00:00Z", &["2101-01-01T00:00:00Z"]);
}

/// croner-rust#9, #24 and #40: refused or misread.
#[test]
fn shorthands_blanks_and_case_are_taken_as_people_write_them() {
    same("@daily", "0 0 0 * * *");
    same("@DAILY", "0 0 * * *");
    same("@midnight", "0 0 * * *");
    same(" \t0 0\t\t*  * mon-Fri \r\n", "0 0 * * 1-5");
    same("0 0 l * *", "0 0 L * *");
    same("0 0 * jan FRI#2", "0 0 * 1 5#2");
}

#[test]
fn a_quartz_sunday_is_one() {
    let sundays = quartz("0 0 12 ? * 1", "UTC");
    assert_eq!(sundays.next(ms("2026-01-15T00:00:00Z")), Some(ms("2026-01-18T12:00:00Z")));
    assert_eq!(quartz("0 0 12 ? * SUN", "UTC").next(ms("2026-01-15T00:00:00Z")), Some(ms("2026-01-18T12:00:00Z")));
}

/// uhop/gotcha#40: a bad line panicked in a task, unseen.
#[test]
fn a_bad_line_is_a_value_and_no_panic() {
    let parsed: Result<Schedule, _> = Cron::parse("every day", Dialect::Unix, Tz::UTC).map(Schedule::from);
    assert_eq!(
        parsed.unwrap_err().to_string(),
        "a cron line has 5 or 6 fields, and this has 2 fields; minute, hour, day of month, month, day of week; with 6 fields the \
         second comes first"
    );
}

#[test]
fn refusals_say_what_is_wrong_and_what_to_write() {
    let cases = [
        ("* * * *", "a cron line has 5 or 6 fields, and this has 4 fields; minute, hour,"),
        (
            "0 0 0 1 1 ? 2027",
            "a cron line has 5 or 6 fields, and this has 7; for a line with seconds and a year set the dialect `quartz`",
        ),
        ("0\u{a0}5 * * *", "a blank that is no space or tab; separate the fields by spaces"),
        ("60 * * * *", "minute 60 is out of range; minutes are 0-59"),
        ("* 24 * * *", "hour 24 is out of range; hours are 0-23"),
        ("* * 0 * *", "day 0 is out of range; days are 1-31"),
        ("* * * 13 *", "month 13 is out of range; months are 1-12 or JAN-DEC"),
        ("* * * * 8", "weekday 8 is out of range; weekdays are 0-7 (0 and 7 are Sunday) or SUN-SAT"),
        ("* * * * MOM", "`MOM` is not a weekday; did you mean `MON`?"),
        ("* * * JANN *", "`JANN` is not a month; did you mean `JAN`?"),
        ("1,,2 * * * *", "an empty item in the list of minutes; write no blank and no second comma inside a field"),
        ("1, 2 * * * *", "an empty item in the list of seconds; write no blank and no second comma inside a field"),
        ("*/ * * * *", "`*/` has no step after the `/`; a step of minutes is 1 to 60"),
        ("*/5/2 * * * *", "`5/2` is not a step; a step of minutes is 1 to 60"),
        ("-1 * * * *", "`-1` is not a minute; minutes are 0-59"),
        ("* * * * 1#6", "`1#6` names no week of a month; after `#` stands 1 to 5: `FRI#3` is the third Friday"),
        ("* * * * L", "`L` alone names no weekday; write `SAT`, or `FRIL` for the last Friday of the month"),
        ("* * L-31 * *", "`L-31` is not a day; days before the last are `L-1` to `L-30`"),
        ("* * LX * *", "`LX` is not a day; days are 1-31"),
        ("@reboot", "`@reboot` is not a time; run it when the program starts, before the scheduler does"),
        ("@dayly", "unknown shorthand `@dayly`; did you mean `@daily`?"),
        (
            "@fortnightly",
            "unknown shorthand `@fortnightly`; write `@hourly`, `@daily`, `@weekly`, `@monthly` or `@yearly`",
        ),
        ("@daily 0 0 * * *", "nothing may follow `@daily`"),
        ("", "an empty cron line; write 5 fields, such as `0 8 * * MON-FRI`"),
    ];
    for (line, message) in cases {
        assert!(refused(line).starts_with(message), "{line}: {}", refused(line));
    }
}

#[test]
fn a_refusal_points_at_the_smallest_part_that_is_wrong() {
    let cases = [
        ("60 * * * *", "^^"),
        ("0 5-61 * * *", "    ^^"),
        ("0 0 1,2,40 * *", "        ^^"),
        ("*/0 * * * *", "  ^"),
        ("0 0 * * 1#6", "          ^"),
        ("0 0 * MON *", "      ^^^"),
        ("1,,2 * * * *", " ^"),
        (",1 * * * *", "^"),
        ("1, * * * *", " ^"),
        ("\t* * * *", " ^^^^^^^"),
        ("☃ * * * *", "^"),
        ("0 0 ☃☃ * ☃", "    ^^"),
        ("@daily 1", "       ^"),
    ];
    for (line, caret) in cases {
        let drawn = Cron::parse(line, Dialect::Unix, Tz::UTC).unwrap_err().caret(line);
        assert_eq!(drawn.lines().nth(1), Some(caret), "\n{drawn}");
    }
}
