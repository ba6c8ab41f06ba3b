//! Cron lines in the dialect of Quartz and of the `cron` crate.
//!
//! The `cron` crate reads each field; its sets then run through the engine of this crate. Its own iterator knows no
//! rule for times that a clock change leaves out or repeats, so two instances asking at different moments would not
//! agree on the slots.

use std::ops::Range;
use std::str::FromStr;

use cron::{Schedule, TimeUnitSpec};

use super::civil::Civil;
use super::parse::{Line, Part, fields, joined, never, shorthand};
use crate::error::{ParseError, quote};

/// The `cron` crate builds a set for each item of a list. No line that a person wrote comes near this.
const LONGEST: usize = 1_000;

const NAMES: [&str; 7] = ["second", "minute", "hour", "day of month", "month", "day of week", "year"];

/// Reads a whole line.
pub(super) fn line(input: &str) -> Result<Line, ParseError> {
    if input.len() > LONGEST {
        return Err(ParseError::new(format!("a quartz line is no longer than {LONGEST} bytes")).at(0..input.len()));
    }
    let fields = fields(input, 7)?;
    // the shorthands mean the same in both dialects
    if fields[0].text.starts_with('@') {
        return shorthand(&fields);
    }
    let span = fields[0].start..fields[fields.len() - 1].span().end;
    if !(6..=7).contains(&fields.len()) {
        let count = fields.len();
        let many = match count {
            1 => "this has 1 field".to_owned(),
            2..=5 => format!("this has {count} fields"),
            _ => "this has more".to_owned(),
        };
        let hint = if count == 5 {
            "the second comes first; for a line of 5 fields set the dialect `unix`"
        } else {
            "second, minute, hour, day of month, month, day of week, and a year if need be"
        };
        return Err(ParseError::new(format!("a quartz line has 6 or 7 fields, and {many}")).at(span).with_hint(hint));
    }
    let mut times = Civil {
        seconds: 0,
        minutes: 0,
        hours: 0,
        months: 0,
        days: 0,
        before_last: 0,
        nearest: 0,
        last_workday: false,
        weekdays: 0,
        nth: 0,
        both: true,
        years: None,
    };
    for (index, field) in fields.iter().enumerate() {
        read(index, *field, &mut times)?;
    }
    let wild = fields[..3].iter().any(|field| field.text.starts_with('*'));
    if !times.is_possible() {
        return Err(never(fields[3].start..span.end));
    }
    Ok(Line { times, text: joined(&fields), wild })
}

/// Reads one field, in a line whose other fields are stars: so no field can reach into the next, and the place of an
/// error is known.
fn read(index: usize, field: Part<'_>, times: &mut Civil) -> Result<(), ParseError> {
    let mut line = ["*"; 7];
    line[index] = field.text;
    let schedule = Schedule::from_str(&line.join(" ")).map_err(|_| refusal(index, field.text, field.span()))?;
    match index {
        0 => times.seconds = set(schedule.seconds()),
        1 => times.minutes = set(schedule.minutes()),
        2 => times.hours = set(schedule.hours()) as u32,
        3 => times.days = set(schedule.days_of_month()) as u32,
        4 => times.months = set(schedule.months()) as u16,
        // 1 is Sunday there and bit 0 here
        5 => times.weekdays = (set(schedule.days_of_week()) >> 1) as u8,
        _ if schedule.years().is_all() => {}
        _ => {
            let years = schedule.years().iter();
            times.years = Some(years.filter_map(|year| u16::try_from(year).ok()).collect());
        }
    }
    Ok(())
}

fn set(unit: &impl TimeUnitSpec) -> u64 {
    unit.iter().fold(0, |set, value| set | 1_u64.checked_shl(value).unwrap_or(0))
}

fn refusal(index: usize, text: &str, span: Range<usize>) -> ParseError {
    let hint = match index {
        0 | 1 => "values are 0-59, with lists, ranges and steps",
        2 => "hours are 0-23, with lists, ranges and steps",
        3 if text.contains(['L', 'W', 'l', 'w']) => "`L` and `W` are there in the dialect `unix` only",
        3 => "days are 1-31, with lists, ranges and steps, or `?`",
        4 => "months are 1-12 or JAN-DEC, with lists, ranges and steps",
        5 if text.contains('#') || text.ends_with(['L', 'l']) => "`#` and `L` are there in the dialect `unix` only",
        5 => "weekdays are 1-7 (1 is Sunday) or SUN-SAT, with lists, ranges and steps, or `?`",
        _ => "years are 1970-2100, with lists, ranges and steps",
    };
    ParseError::new(format!("{} is no {} field", quote(text), NAMES[index])).at(span).with_hint(hint)
}
