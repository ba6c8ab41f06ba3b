//! The engine against a simulation that looks at every minute (or second) of a clock, in many zones and around all
//! their changes.
//!
//! The simulation shares nothing with the engine: it takes local times from chrono-tz one instant at a time and asks
//! of each whether the line names it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use anarchon_schedule::{Schedule, zone};
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, Offset, TimeZone, Timelike};
use support::{Random, cron, utc};
use zone::Tz;

/// Half hours and quarters, changes at midnight and on Fridays, two hours at once, negative summer time, Ramadan, the
/// date line.
const ZONES: [&str; 28] = [
    "Africa/Cairo",
    "Africa/Casablanca",
    "America/Caracas",
    "America/Havana",
    "America/Los_Angeles",
    "America/New_York",
    "America/Nuuk",
    "America/Santiago",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Antarctica/Casey",
    "Antarctica/Troll",
    "Asia/Amman",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Asia/Pyongyang",
    "Asia/Tehran",
    "Asia/Tokyo",
    "Atlantic/Azores",
    "Australia/Lord_Howe",
    "Australia/Sydney",
    "Europe/Dublin",
    "Europe/Istanbul",
    "Europe/London",
    "Europe/Paris",
    "Pacific/Apia",
    "Pacific/Chatham",
];

const MINUTE: i64 = 60;
const HOUR: i64 = 3600;
const DAY: i64 = 86_400;

/// One item of a field, as a person would read it.
enum Item {
    Values(Vec<u32>),
    LastDay(u32),
    LastWorkday,
    NearestWorkday(u32),
    NthWeekday(u32, u32),
    LastWeekday(u32),
}

struct Field {
    text: String,
    items: Vec<Item>,
}

impl Field {
    fn has(&self, value: u32) -> bool {
        self.items.iter().any(|item| matches!(item, Item::Values(values) if values.contains(&value)))
    }

    fn starts_with_star(&self) -> bool {
        self.text.starts_with(['*', '?'])
    }

    fn day(&self, date: NaiveDate) -> bool {
        self.items.iter().any(|item| match item {
            Item::Values(values) => values.contains(&date.day()),
            Item::LastDay(before) => {
                let length = last_of_month(date).day();
                length > *before && date.day() == length - before
            }
            Item::LastWorkday => {
                Some(date) == (0..7).map(|n| last_of_month(date) - chrono::Days::new(n)).find(|d| workday(*d))
            }
            Item::NearestWorkday(day) => {
                let near = date.with_day(*day);
                let distance = |d: &NaiveDate| (d.day().abs_diff(*day), *d);
                let nearest =
                    near.and_then(|_| days_of_month(date).into_iter().filter(|d| workday(*d)).min_by_key(distance));
                Some(date) == nearest
            }
            Item::NthWeekday(..) | Item::LastWeekday(_) => {
                unreachable!("no weekday stands in the day field")
            }
        })
    }

    fn weekday(&self, date: NaiveDate) -> bool {
        let weekday = date.weekday().num_days_from_sunday();
        self.items.iter().any(|item| match item {
            Item::Values(values) => values.iter().any(|v| v % 7 == weekday),
            Item::NthWeekday(day, k) => *day == weekday && date.day().div_ceil(7) == *k,
            Item::LastWeekday(day) => *day == weekday && (date + chrono::Days::new(7)).month() != date.month(),
            _ => unreachable!("no day stands in the weekday field"),
        })
    }
}

fn workday(date: NaiveDate) -> bool {
    date.weekday().number_from_monday() <= 5
}

fn days_of_month(date: NaiveDate) -> Vec<NaiveDate> {
    (1..=31).filter_map(|day| date.with_day(day)).collect()
}

fn last_of_month(date: NaiveDate) -> NaiveDate {
    *days_of_month(date).last().unwrap()
}

/// A line and its meaning, made together so that the text needs no second parser.
struct Line {
    text: String,
    second: Field,
    minute: Field,
    hour: Field,
    day: Field,
    month: Field,
    weekday: Field,
    wild: bool,
}

impl Line {
    fn random(random: &mut Random, seconds: bool) -> Self {
        let zero = || Field { text: "0".to_owned(), items: vec![Item::Values(vec![0])] };
        let second = if seconds { plain(random, 0, 59, &[]) } else { zero() };
        // mostly the hours in which clocks change, or else most lines would say nothing about changes
        let hour = match random.below(3) {
            0 => plain(random, 0, 23, &[]),
            1 => {
                let hour = random.within(0, 3);
                Field { text: hour.to_string(), items: vec![Item::Values(vec![hour])] }
            }
            _ => Field { text: "0-3".to_owned(), items: vec![Item::Values((0..=3).collect())] },
        };
        let minute = plain(random, 0, 59, &[]);
        let mut any = |chance, field: fn(&mut Random) -> Field| {
            if random.below(10) < chance { field(random) } else { star() }
        };
        let month = any(2, |random| plain(random, 1, 12, &MONTHS));
        let day = any(3, days);
        let weekday = any(3, weekdays);
        let clock = [&minute, &hour];
        let wild = clock.iter().any(|field| field.starts_with_star()) || (seconds && second.starts_with_star());
        let mut fields = [&minute, &hour, &day, &month, &weekday].map(|field| field.text.as_str()).join(" ");
        if seconds {
            fields = format!("{} {fields}", second.text);
        }
        Self { text: fields, second, minute, hour, day, month, weekday, wild }
    }

    fn names(&self, wall: NaiveDateTime) -> bool {
        self.minute.has(wall.minute())
            && self.hour.has(wall.hour())
            && self.second.has(wall.second())
            && self.month.has(wall.month())
            && self.names_day(wall.date())
    }

    fn names_day(&self, date: NaiveDate) -> bool {
        let (day, weekday) = (self.day.day(date), self.weekday.weekday(date));
        if self.day.starts_with_star() || self.weekday.starts_with_star() { day && weekday } else { day || weekday }
    }
}

const MONTHS: [&str; 12] = ["JAN", "FEB", "mar", "Apr", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "tue", "Wed", "THU", "FRI", "SAT"];

fn star() -> Field {
    Field { text: "*".to_owned(), items: vec![Item::Values((0..=59).collect())] }
}

fn plain(random: &mut Random, min: u32, max: u32, names: &[&str]) -> Field {
    let (mut texts, mut items) = (Vec::new(), Vec::new());
    for _ in 0..=random.below(2) {
        let (text, values) = item(random, min, max, names);
        texts.push(text);
        items.push(Item::Values(values));
    }
    Field { text: texts.join(","), items }
}

fn item(random: &mut Random, min: u32, max: u32, names: &[&str]) -> (String, Vec<u32>) {
    let mut value = || {
        let value = random.within(min, max);
        let name = names.get((value - min) as usize).filter(|_| random.below(2) == 0);
        (value, name.map_or_else(|| value.to_string(), |name| (*name).to_owned()))
    };
    let ((a, a_text), (b, b_text)) = (value(), value());
    // a range over the end goes on from the start
    let range: Vec<u32> = if a <= b { (a..=b).collect() } else { (a..=max).chain(min..=b).collect() };
    let step = random.within(1, max - min + 1);
    let stepped = |values: Vec<u32>| values.into_iter().step_by(step as usize).collect();
    match random.below(6) {
        0 => ("*".to_owned(), (min..=max).collect()),
        1 => (format!("*/{step}"), stepped((min..=max).collect())),
        2 => (a_text, vec![a]),
        3 => (format!("{a_text}-{b_text}"), range),
        4 => (format!("{a_text}-{b_text}/{step}"), stepped(range)),
        _ => (format!("{a_text}/{step}"), stepped((a..=max).collect())),
    }
}

fn days(random: &mut Random) -> Field {
    let n = random.within(0, 27);
    let (text, item) = match random.below(7) {
        0 => ("L".to_owned(), Item::LastDay(0)),
        1 => (format!("L-{n}"), Item::LastDay(n)),
        2 => ("LW".to_owned(), Item::LastWorkday),
        3 => (format!("{}W", n + 1), Item::NearestWorkday(n + 1)),
        4 => ("?".to_owned(), Item::Values((1..=31).collect())),
        _ => return plain(random, 1, 31, &[]),
    };
    Field { text, items: vec![item] }
}

fn weekdays(random: &mut Random) -> Field {
    let day = random.within(0, 6);
    let (text, item) = match random.below(6) {
        0 => (format!("{day}L"), Item::LastWeekday(day)),
        1 => {
            let k = random.within(1, 5);
            (format!("{}#{k}", WEEKDAYS[day as usize]), Item::NthWeekday(day, k))
        }
        2 => ("7".to_owned(), Item::Values(vec![7])),
        _ => return plain(random, 0, 6, &WEEKDAYS),
    };
    Field { text, items: vec![item] }
}

fn local(zone: Tz, instant: i64) -> NaiveDateTime {
    zone.from_utc_datetime(&DateTime::from_timestamp(instant, 0).unwrap().naive_utc()).naive_local()
}

fn offset(zone: Tz, instant: i64) -> i32 {
    zone.offset_from_utc_datetime(&DateTime::from_timestamp(instant, 0).unwrap().naive_utc()).fix().local_minus_utc()
}

/// The first instants with a new offset, from 2000 to 2037.
fn changes(zone: Tz) -> Vec<i64> {
    let (start, end) = (946_684_800, 2_145_916_800);
    let mut changes = Vec::new();
    for day in (start..end).step_by(DAY as usize) {
        let (mut low, mut high) = (day, day + DAY);
        if offset(zone, low) == offset(zone, high) {
            continue;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if offset(zone, middle) == offset(zone, day) {
                low = middle;
            } else {
                high = middle;
            }
        }
        changes.push(high);
    }
    changes
}

/// A stretch of time with its local times, one for each step.
struct Window {
    walls: Vec<(i64, NaiveDateTime)>,
    step: i64,
}

impl Window {
    fn new(zone: Tz, from: i64, to: i64, step: i64) -> Self {
        let from = from - from.rem_euclid(step);
        Self { walls: (from..=to).step_by(step as usize).map(|at| (at, local(zone, at))).collect(), step }
    }

    /// The slots of a line: the rules, looked at instant by instant.
    fn slots(&self, line: &Line) -> Vec<i64> {
        let step = chrono::TimeDelta::seconds(self.step);
        let mut slots = Vec::new();
        let mut shown: Option<NaiveDateTime> = None;
        for &(at, wall) in &self.walls {
            let mut hit = line.names(wall);
            if !line.wild
                && let Some(before) = shown
            {
                // shown already: the second pass
                hit &= wall > before;
                let mut missing = before + step;
                if wall - missing <= chrono::TimeDelta::hours(3) {
                    while missing < wall {
                        hit |= line.names(missing);
                        missing += step;
                    }
                }
            }
            if hit {
                slots.push(at);
            }
            shown = shown.max(Some(wall));
        }
        slots
    }
}

/// Compares a line with its simulation in `(from, to]`: walked, and asked for from anywhere in both directions.
fn compare(random: &mut Random, schedule: &Schedule, line: &Line, zone: &str, all: &[i64], from: i64, to: i64) {
    let slots: Vec<i64> = all.iter().copied().filter(|at| (from + 1..=to).contains(at)).collect();
    let name = || format!("`{}` in {zone}", line.text);
    let mut walked = Vec::new();
    let mut at = from * 1000;
    while let Some(slot) = schedule.next(at).filter(|slot| *slot <= to * 1000) {
        assert!(slot > at && slot % 1000 == 0, "{} after {}: {}", name(), utc(at), utc(slot));
        walked.push(slot / 1000);
        at = slot;
    }
    if walked != slots {
        let text = |list: &[i64]| list.iter().map(|at| utc(at * 1000)).collect::<Vec<_>>();
        panic!("{} from {}:\n walked {:?}\n oracle {:?}", name(), utc(from * 1000), text(&walked), text(&slots));
    }
    for _ in 0..12 {
        // fractions of a second are part of a query
        let asked = random.instant(from * 1000, to * 1000);
        let next = slots.iter().copied().find(|slot| slot * 1000 > asked).map(|slot| slot * 1000);
        match schedule.next(asked) {
            Some(slot) if slot <= to * 1000 => {
                assert_eq!(Some(slot), next, "{} after {}", name(), utc(asked));
            }
            _ => assert_eq!(None, next, "{} after {}", name(), utc(asked)),
        }
        let latest = slots.iter().copied().rev().find(|slot| slot * 1000 <= asked).map(|slot| slot * 1000);
        match schedule.latest(asked) {
            Some(slot) if slot > from * 1000 => {
                assert_eq!(Some(slot), latest, "{} at {}", name(), utc(asked));
            }
            _ => assert_eq!(None, latest, "{} at {}", name(), utc(asked)),
        }
    }
}

/// A random line that the crate accepts; it refuses those whose date never comes.
fn accepted(random: &mut Random, zone: &str, seconds: bool) -> (Line, Schedule) {
    loop {
        let line = Line::random(random, seconds);
        match anarchon_schedule::Cron::parse(&line.text, anarchon_schedule::Dialect::Unix, zone::parse(zone).unwrap()) {
            Ok(cron) => return (line, cron.into()),
            Err(error) => assert_eq!(error.message(), "this date never comes", "{}", line.text),
        }
    }
}

#[test]
fn slots_around_every_clock_change_are_those_of_a_minute_by_minute_simulation() {
    let mut random = Random(1);
    let (mut windows, mut lines, mut slots) = (0, 0, 0);
    for name in ZONES {
        let zone = zone::parse(name).unwrap();
        for change in changes(zone) {
            let window = Window::new(zone, change - 30 * HOUR, change + 28 * HOUR, MINUTE);
            windows += 1;
            for n in 0..4 {
                let (line, schedule) = accepted(&mut random, name, false);
                let all = window.slots(&line);
                // a start at some minute, not always at the same distance from the change
                let from = change - random.instant(HOUR, 26 * HOUR);
                let to = if n == 0 { change + 28 * HOUR } else { change + random.instant(HOUR, 8 * HOUR) };
                compare(&mut random, &schedule, &line, name, &all, from, to);
                lines += 1;
                slots += all.len();
            }
        }
    }
    println!("{windows} clock changes in {} zones, {lines} lines, {slots} slots", ZONES.len());
    assert!(windows > 1_000 && slots > 100_000, "{windows} changes, {slots} slots");
}

#[test]
fn lines_with_seconds_are_those_of_a_second_by_second_simulation() {
    let mut random = Random(2);
    for name in ZONES {
        let zone = zone::parse(name).unwrap();
        let changes = changes(zone);
        for _ in 0..changes.len().min(3) {
            let change = changes[random.below(changes.len() as u64) as usize];
            let window = Window::new(zone, change - 3 * HOUR, change + 3 * HOUR, 1);
            for _ in 0..3 {
                let (line, schedule) = accepted(&mut random, name, true);
                let all = window.slots(&line);
                compare(&mut random, &schedule, &line, name, &all, change - 600, change + 600);
            }
        }
    }
}

#[test]
fn days_of_a_line_are_those_of_a_calendar_read_day_by_day() {
    let mut random = Random(3);
    let day = |date: NaiveDate| date.and_hms_opt(12, 0, 0).unwrap().and_utc().timestamp_millis();
    for _ in 0..300 {
        let (mut line, _) = accepted(&mut random, "UTC", false);
        (line.day, line.weekday) = (days(&mut random), weekdays(&mut random));
        let text = format!("0 12 {} {} {}", line.day.text, line.month.text, line.weekday.text);
        let Ok(parsed) = anarchon_schedule::Cron::parse(&text, anarchon_schedule::Dialect::Unix, Tz::UTC) else {
            continue;
        };
        let schedule = Schedule::from(parsed);
        let first = NaiveDate::from_ymd_opt(1890 + random.within(0, 220) as i32, 1, 1).unwrap();
        let dates: Vec<NaiveDate> = first.iter_days().take(1500).collect();
        let expected: Vec<i64> = dates
            .iter()
            .filter(|date| line.month.has(date.month()) && line.names_day(**date))
            .map(|date| day(*date))
            .collect();
        let (mut at, mut walked) = (day(first) - 1, Vec::new());
        while let Some(slot) = schedule.next(at).filter(|slot| *slot <= day(*dates.last().unwrap())) {
            walked.push(slot);
            at = slot;
        }
        assert_eq!(walked, expected, "{text} from {first}");
        let (mut at, mut back) = (day(*dates.last().unwrap()), Vec::new());
        while let Some(slot) = schedule.latest(at).filter(|slot| *slot >= day(first)) {
            back.push(slot);
            at = slot - 1;
        }
        back.reverse();
        assert_eq!(back, expected, "{text} back to {first}");
    }
}

#[test]
fn looking_back_undoes_looking_ahead_in_every_zone() {
    let mut random = Random(4);
    let zones: Vec<&str> = chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name()).collect();
    // from 1850, before most zones had a standard time, to the end of the tables and past it
    let (from, to) = (-3_786_825_600_000, 4_417_977_600_000);
    for _ in 0..8_000 {
        let zone = random.pick(&zones);
        let seconds = random.below(4) == 0;
        let (line, schedule) = accepted(&mut random, zone, seconds);
        let asked = random.instant(from, to);
        let name = || format!("`{}` in {zone} at {}", line.text, utc(asked));
        let next = schedule.next(asked).unwrap_or_else(|| panic!("{} has no slot", name()));
        let latest = schedule.latest(asked).unwrap_or_else(|| panic!("{} had no slot", name()));
        assert!(latest <= asked && asked < next, "{}: {} and {}", name(), utc(latest), utc(next));
        assert_eq!(schedule.latest(next), Some(next), "{}", name());
        assert_eq!(schedule.latest(next - 1), Some(latest), "{}", name());
        assert_eq!(schedule.next(latest), Some(next), "{}", name());
        assert_eq!(schedule.next(latest - 1), Some(latest), "{}", name());
        assert_eq!(
            schedule.gap_after(latest).map(|gap| gap.as_millis()),
            Some(u128::from(next.abs_diff(latest))),
            "{}",
            name()
        );
    }
}

#[test]
fn one_date_a_year_beside_a_clock_change_is_found_from_months_away() {
    let mut random = Random(14);
    let mut slots = 0;
    for name in ZONES {
        let zone = zone::parse(name).unwrap();
        for change in changes(zone) {
            let window = Window::new(zone, change - 30 * HOUR, change + 6 * HOUR, MINUTE);
            for _ in 0..2 {
                // a time of the clock within two hours of the change, as it was before
                let wall = local(zone, change - 1) + chrono::TimeDelta::seconds(random.instant(-2 * HOUR, 2 * HOUR));
                let values = |values: Vec<u32>| vec![Item::Values(values)];
                let one = |value: u32| Field { text: value.to_string(), items: values(vec![value]) };
                let half = Field { text: "*/30".to_owned(), items: values(vec![0, 30]) };
                let wild = random.below(2) == 0;
                let line = Line {
                    text: String::new(),
                    second: one(0),
                    minute: if wild { half } else { one(wall.minute()) },
                    hour: one(wall.hour()),
                    day: one(wall.day()),
                    month: one(wall.month()),
                    weekday: star(),
                    wild,
                };
                let text = [&line.minute, &line.hour, &line.day, &line.month, &line.weekday].map(|f| f.text.as_str());
                let schedule = cron(&text.join(" "), name);
                let expected = window.slots(&line);
                let expected: Vec<i64> = expected.into_iter().filter(|at| *at > change - 26 * HOUR).collect();
                let context = || format!("`{}` in {name} around {}", text.join(" "), utc(change * 1000));
                let (Some(first), Some(last)) = (expected.first(), expected.last()) else { continue };
                slots += expected.len();
                for days in [3, 30, 200, 300] {
                    let away = days * DAY + random.instant(0, DAY);
                    assert_eq!(schedule.next((first - away) * 1000), Some(first * 1000), "{} from afar", context());
                    assert_eq!(
                        schedule.latest((last + away) * 1000),
                        Some(last * 1000),
                        "{} back from afar",
                        context()
                    );
                }
            }
        }
    }
    assert!(slots > 2_000, "{slots}");
}

#[test]
fn a_rare_line_is_found_from_any_distance() {
    // a clock change lies between each start and the slot, and neither is near it
    let schedule = cron("30 2 29 2 *", "America/New_York");
    for start in ["2024-03-01T00:00:00Z", "2025-07-01T00:00:00Z", "2027-11-30T00:00:00Z", "2028-02-29T07:29:59Z"] {
        assert_eq!(schedule.next(support::ms(start)), Some(support::ms("2028-02-29T07:30:00Z")), "{start}");
    }
    assert_eq!(schedule.latest(support::ms("2028-02-29T07:29:59Z")), Some(support::ms("2024-02-29T07:30:00Z")));
}
