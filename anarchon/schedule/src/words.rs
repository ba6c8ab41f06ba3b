//! Schedules for people who do not read cron lines. Only lines that can be said exactly are said.

use std::time::Duration;

use crate::cron::{Cron, Dialect};
use crate::every::Every;
use crate::interval;

const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

pub(crate) fn every(every: &Every) -> String {
    let interval = spaced(every.interval());
    match every.offset() {
        Duration::ZERO => format!("every {interval}"),
        offset => format!("every {interval}, {} later", spaced(offset)),
    }
}

pub(crate) fn cron(cron: &Cron) -> String {
    let line = cron.expression();
    let said = match cron.dialect() {
        Dialect::Unix => unix(line).map(|said| format!(" ({said})")),
        Dialect::Quartz => None,
    };
    let dialect = if cron.dialect() == Dialect::Quartz { "quartz " } else { "" };
    format!("cron {dialect}{line}{}", said.unwrap_or_default())
}

/// `1h30m` as `1 h 30 min`.
fn spaced(duration: Duration) -> String {
    let mut text = String::new();
    let mut digits = true;
    for sign in interval::format(duration).chars() {
        if sign.is_ascii_digit() != digits {
            text.push(' ');
            digits = !digits;
        }
        text.push(sign);
    }
    let units = text.split(' ').map(|word| if word == "m" { "min" } else { word });
    units.collect::<Vec<_>>().join(" ")
}

fn unix(line: &str) -> Option<String> {
    match line.to_ascii_lowercase().as_str() {
        "@hourly" => return Some("at minute 0 of every hour".to_owned()),
        "@daily" | "@midnight" => return Some("at 00:00 every day".to_owned()),
        "@weekly" => return Some("at 00:00, Sunday".to_owned()),
        "@monthly" => return Some("at 00:00, on day 1 of every month".to_owned()),
        "@yearly" | "@annually" => return Some("at 00:00, on day 1 of January".to_owned()),
        _ => {}
    }
    let fields: Vec<&str> = line.split(' ').collect();
    let (second, [minute, hour, day, month, weekday]) = match fields[..] {
        [minute, hour, day, month, weekday] => (None, [minute, hour, day, month, weekday]),
        [second, minute, hour, day, month, weekday] => (Some(second), [minute, hour, day, month, weekday]),
        _ => return None,
    };
    let (time, at_times) = match second {
        None | Some("0") => time(minute, hour)?,
        Some(second) => (seconds(second, minute, hour)?, false),
    };
    let days = days(day, month, weekday)?;
    Some(match (days, at_times) {
        (None, true) => format!("{time} every day"),
        (None, false) => time,
        (Some(days), _) => format!("{time}, {days}"),
    })
}

/// The time of day, and whether it is a list of times.
fn time(minute: &str, hour: &str) -> Option<(String, bool)> {
    if hour == "*" {
        return match (minute, step(minute, 60)) {
            ("*", _) => Some(("every minute".to_owned(), false)),
            (_, Some(step)) => Some((format!("every {step} minutes"), false)),
            _ => Some((format!("at minute {} of every hour", number(minute, 59)?), false)),
        };
    }
    let minute = number(minute, 59)?;
    if let Some(step) = step(hour, 24) {
        return Some((format!("at minute {minute} of every {step} hours, from 00:00 on"), false));
    }
    let hours: Option<Vec<u32>> = hour.split(',').map(|hour| number(hour, 23)).collect();
    let times: Vec<String> = hours?.iter().map(|hour| format!("{hour:02}:{minute:02}")).collect();
    Some((format!("at {}", listed(&times)), true))
}

fn seconds(second: &str, minute: &str, hour: &str) -> Option<String> {
    match (second, step(second, 60), minute, hour) {
        ("*", _, "*", "*") => Some("every second".to_owned()),
        (_, Some(step), "*", "*") => Some(format!("every {step} seconds")),
        _ => None,
    }
}

/// Which days; `None` inside is all of them.
fn days(day: &str, month: &str, weekday: &str) -> Option<Option<String>> {
    let any = |field: &str| matches!(field, "*" | "?");
    let in_month = match month {
        "*" => "every month".to_owned(),
        month => named(month, 1, &MONTHS)?,
    };
    match (any(day), any(weekday)) {
        (true, true) if month == "*" => Some(None),
        (true, true) => Some(Some(format!("every day of {in_month}"))),
        (true, false) => {
            let days = named(weekday, 0, &WEEKDAYS)?;
            Some(Some(if month == "*" { days } else { format!("{days}, in {in_month}") }))
        }
        (false, true) if day.eq_ignore_ascii_case("L") => Some(Some(format!("on the last day of {in_month}"))),
        (false, true) => {
            let days: Option<Vec<String>> = day.split(',').map(|day| number(day, 31).map(|n| n.to_string())).collect();
            let days = days?;
            let word = if days.len() == 1 { "day" } else { "days" };
            Some(Some(format!("on {word} {} of {in_month}", listed(&days))))
        }
        // Either of the two is enough, which nobody expects: the line says it best.
        (false, false) => None,
    }
}

/// One name, a list of names, or a range that goes forward.
fn named(field: &str, first: usize, names: &[&'static str]) -> Option<String> {
    let find = |item: &str| -> Option<usize> {
        let by_name = names.iter().position(|name| name.get(..3).is_some_and(|short| short.eq_ignore_ascii_case(item)));
        let by_number = || {
            let number = usize::try_from(number(item, 12)?).ok()?;
            // 7 is Sunday, too.
            let place = number.checked_sub(first)?;
            if names.len() == 7 && place == 7 { Some(0) } else { Some(place).filter(|place| *place < names.len()) }
        };
        by_name.or_else(by_number)
    };
    if let Some((from, to)) = field.split_once('-') {
        let (from, to) = (find(from)?, find(to)?);
        return (from < to).then(|| format!("{} to {}", names[from], names[to]));
    }
    let all: Option<Vec<String>> = field.split(',').map(|item| find(item).map(|at| names[at].to_owned())).collect();
    all.map(|all| listed(&all))
}

/// The step of `*/n`, where it divides the whole: elsewhere the last gap is shorter than the others.
fn step(field: &str, whole: u32) -> Option<u32> {
    let step = number(field.strip_prefix("*/")?, whole)?;
    (step > 1 && step < whole && whole.is_multiple_of(step)).then_some(step)
}

fn number(text: &str, most: u32) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| digits && *number <= most)
}

fn listed(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
