//! Cron lines in the dialect of crontab files, read in one pass without backtracking.

use std::ops::Range;

use super::civil::{Civil, LAST};
use crate::error::{ParseError, quote};
use crate::suggest;

/// A line that was read: its sets, its text with single spaces, and whether it follows the clock as shown.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) times: Civil,
    pub(super) text: Box<str>,
    pub(super) wild: bool,
}

/// A part of the input, with its place.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) text: &'a str,
    pub(super) start: usize,
}

impl<'a> Part<'a> {
    pub(super) fn span(self) -> Range<usize> {
        self.start..self.start + self.text.len()
    }

    fn slice(self, from: usize, to: usize) -> Part<'a> {
        Part { text: self.text.get(from..to).unwrap_or_default(), start: self.start + from }
    }

    /// The parts before and after the first `separator`.
    fn split(self, separator: char) -> (Part<'a>, Option<Part<'a>>) {
        match self.text.find(separator) {
            Some(at) => (self.slice(0, at), Some(self.slice(at + separator.len_utf8(), self.text.len()))),
            None => (self, None),
        }
    }

    fn error(self, message: impl Into<String>) -> ParseError {
        ParseError::new(message).at(self.span())
    }
}

/// What one field may hold.
struct Field {
    one: &'static str,
    many: &'static str,
    range: &'static str,
    min: u32,
    max: u32,
    /// The highest number that may be written: a 7 for Sunday.
    top: u32,
    names: &'static [&'static str],
    /// `?` stands for `*`.
    question: bool,
}

const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

const SECOND: Field =
    Field { one: "second", many: "seconds", range: "0-59", min: 0, max: 59, top: 59, names: &[], question: false };
const MINUTE: Field = Field { one: "minute", many: "minutes", ..SECOND };
const HOUR: Field = Field { one: "hour", many: "hours", range: "0-23", max: 23, top: 23, ..SECOND };
const DAY: Field =
    Field { one: "day", many: "days", range: "1-31", min: 1, max: 31, top: 31, names: &[], question: true };
const MONTH: Field = Field {
    one: "month",
    many: "months",
    range: "1-12 or JAN-DEC",
    min: 1,
    max: 12,
    top: 12,
    names: &MONTHS,
    question: false,
};
const WEEKDAY: Field = Field {
    one: "weekday",
    many: "weekdays",
    range: "0-7 (0 and 7 are Sunday) or SUN-SAT",
    min: 0,
    max: 6,
    top: 7,
    names: &WEEKDAYS,
    question: true,
};

const SHORTHANDS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

pub(super) fn blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

/// The fields of a line, at most `most` of them and one more that stands for all the rest.
pub(super) fn fields(line: &str, most: usize) -> Result<Vec<Part<'_>>, ParseError> {
    let whole = line.trim_end_matches([' ', '\t', '\r', '\n']);
    let mut at = whole.len() - whole.trim_start_matches([' ', '\t', '\r', '\n']).len();
    let mut fields = Vec::new();
    while at < whole.len() {
        let rest = &whole[at..];
        let end = if fields.len() < most { rest.find(blank).map_or(whole.len(), |n| at + n) } else { whole.len() };
        fields.push(Part { text: &whole[at..end], start: at });
        at = end + whole[end..].len() - whole[end..].trim_start_matches(blank).len();
    }
    if fields.is_empty() {
        return Err(ParseError::new("an empty cron line")
            .at(0..line.len())
            .with_hint("write 5 fields, such as `0 8 * * MON-FRI`"));
    }
    Ok(fields)
}

/// Reads a whole line.
pub(super) fn line(input: &str) -> Result<Line, ParseError> {
    let fields = fields(input, 6)?;
    if fields[0].text.starts_with('@') {
        return shorthand(&fields);
    }
    let (second, rest) = match fields.len() {
        5 => (None, &fields[..]),
        6 => (Some(fields[0]), &fields[1..]),
        count => return Err(wrong_count(input, &fields, count)),
    };
    let mut times = Civil {
        seconds: match second {
            Some(field) => values(field, &SECOND)?,
            None => 1,
        },
        minutes: values(rest[0], &MINUTE)?,
        hours: values(rest[1], &HOUR)? as u32,
        months: 0,
        days: 0,
        before_last: 0,
        nearest: 0,
        last_workday: false,
        weekdays: 0,
        nth: 0,
        both: rest[2].text.starts_with(['*', '?']) || rest[4].text.starts_with(['*', '?']),
        years: None,
    };
    days(rest[2], &mut times)?;
    times.months = values(rest[3], &MONTH)? as u16;
    weekdays(rest[4], &mut times)?;
    let clock = second.into_iter().chain([rest[0], rest[1]]);
    let wild = clock.into_iter().any(|field| field.text.starts_with('*'));
    if !times.is_possible() {
        return Err(never(rest[2].start..rest[4].span().end));
    }
    Ok(Line { times, text: joined(&fields), wild })
}

/// A date that no calendar has.
pub(super) fn never(span: Range<usize>) -> ParseError {
    ParseError::new("this date never comes").at(span).with_hint("no month that is named has such a day")
}

/// The fields with single spaces between them.
pub(super) fn joined(fields: &[Part<'_>]) -> Box<str> {
    let texts: Vec<&str> = fields.iter().map(|field| field.text).collect();
    texts.join(" ").into_boxed_str()
}

/// Reads `@daily` and its like.
pub(super) fn shorthand(fields: &[Part<'_>]) -> Result<Line, ParseError> {
    let name = fields[0];
    if name.text.eq_ignore_ascii_case("@reboot") {
        return Err(name
            .error("`@reboot` is not a time")
            .with_hint("run it when the program starts, before the scheduler does"));
    }
    let Some((_, meaning)) = SHORTHANDS.iter().find(|(short, _)| short.eq_ignore_ascii_case(name.text)) else {
        let hint = match suggest::closest(name.text, SHORTHANDS.map(|(short, _)| short)) {
            Some(short) => format!("did you mean `{short}`?"),
            None => "write `@hourly`, `@daily`, `@weekly`, `@monthly` or `@yearly`".to_owned(),
        };
        return Err(name.error(format!("unknown shorthand {}", quote(name.text))).with_hint(hint));
    };
    if let Some(more) = fields.get(1) {
        return Err(more.error(format!("nothing may follow {}", quote(name.text))));
    }
    Ok(Line { text: joined(fields), ..line(meaning)? })
}

fn wrong_count(input: &str, fields: &[Part<'_>], count: usize) -> ParseError {
    const NAMES: &str = "minute, hour, day of month, month, day of week; with 6 fields the second comes first";
    if let Some(other) = input.char_indices().find(|(_, c)| c.is_whitespace() && !c.is_ascii()) {
        let span = other.0..other.0 + other.1.len_utf8();
        return ParseError::new("a blank that is no space or tab").at(span).with_hint("separate the fields by spaces");
    }
    let span = fields[0].start..fields[fields.len() - 1].span().end;
    if count < 5 {
        let fields = if count == 1 { "1 field".to_owned() } else { format!("{count} fields") };
        return ParseError::new(format!("a cron line has 5 or 6 fields, and this has {fields}"))
            .at(span)
            .with_hint(NAMES);
    }
    let more = fields[6];
    if !more.text.contains(blank) && more.text.bytes().all(|b| b.is_ascii_digit() || b"*,-/".contains(&b)) {
        let message = "a cron line has 5 or 6 fields, and this has 7";
        return ParseError::new(message)
            .at(span)
            .with_hint("for a line with seconds and a year set the dialect `quartz`");
    }
    ParseError::new("a cron line has 5 or 6 fields, and this has more").at(more.span()).with_hint(NAMES)
}

/// The values of a field that has none but plain items.
fn values(field: Part<'_>, kind: &Field) -> Result<u64, ParseError> {
    let mut set = 0;
    each_item(field, kind, |item| {
        set |= plain(item, kind)?;
        Ok(())
    })?;
    Ok(set)
}

fn days(field: Part<'_>, times: &mut Civil) -> Result<(), ParseError> {
    each_item(field, &DAY, |item| {
        let text = item.text;
        if text.starts_with(['L', 'l']) {
            if text.eq_ignore_ascii_case("LW") {
                times.last_workday = true;
                return Ok(());
            }
            let before = match text.as_bytes().get(1) {
                None => 0,
                Some(b'-') => number(item.slice(2, text.len())).filter(|n| *n <= 30).ok_or_else(|| {
                    item.error(format!("{} is not a day", quote(text)))
                        .with_hint("days before the last are `L-1` to `L-30`")
                })?,
                Some(_) => return Err(unknown(item, item, &DAY)),
            };
            times.before_last |= 1 << before;
        } else if text.len() > 1 && text.ends_with(['W', 'w']) {
            let day = item.slice(0, text.len() - 1);
            times.nearest |= 1 << value(day, item, &DAY)?;
        } else {
            times.days |= plain(item, &DAY)? as u32;
        }
        Ok(())
    })
}

fn weekdays(field: Part<'_>, times: &mut Civil) -> Result<(), ParseError> {
    each_item(field, &WEEKDAY, |item| {
        let text = item.text;
        if let (day, Some(k)) = item.split('#') {
            let day = value(day, item, &WEEKDAY)? % 7;
            let nth = number(k).filter(|k| (1..=5).contains(k)).ok_or_else(|| {
                let place = if k.text.is_empty() { item } else { k };
                place
                    .error(format!("{} names no week of a month", quote(text)))
                    .with_hint("after `#` stands 1 to 5: `FRI#3` is the third Friday")
            })?;
            times.nth |= 1 << (6 * day + nth - 1);
        } else if text.eq_ignore_ascii_case("L") {
            return Err(item
                .error("`L` alone names no weekday")
                .with_hint("write `SAT`, or `FRIL` for the last Friday of the month"));
        } else if text.ends_with(['L', 'l']) {
            let day = value(item.slice(0, text.len() - 1), item, &WEEKDAY)? % 7;
            times.nth |= 1 << (6 * day + LAST - 1);
        } else {
            times.weekdays |= plain(item, &WEEKDAY)? as u8;
        }
        Ok(())
    })
}

fn each_item<'a>(
    field: Part<'a>,
    kind: &Field,
    mut item: impl FnMut(Part<'a>) -> Result<(), ParseError>,
) -> Result<(), ParseError> {
    let mut start = 0;
    for text in field.text.split(',') {
        let part = field.slice(start, start + text.len());
        if text.is_empty() {
            // the comma beside the missing item, for the caret needs something to stand under
            let comma = start.saturating_sub(1);
            let what = format!("an empty item in the list of {}", kind.many);
            return Err(field
                .slice(comma, comma + 1)
                .error(what)
                .with_hint("write no blank and no second comma inside a field"));
        }
        item(part)?;
        start += text.len() + 1;
    }
    Ok(())
}

/// `*`, `v` or `a-b`, each with an optional step, as a set.
fn plain(item: Part<'_>, kind: &Field) -> Result<u64, ParseError> {
    if item.text == "*" {
        // by far the commonest item, and the shortest: a long list of them must not take long
        return Ok((2 << kind.max) - (1 << kind.min));
    }
    let (base, step) = item.split('/');
    let step = step.map(|text| self::step(text, item, kind)).transpose()?;
    let count = kind.max - kind.min + 1;
    let (from, to) = if base.text == "*" || (base.text == "?" && kind.question) {
        (kind.min, kind.max)
    } else if let (first, Some(last)) = base.split('-') {
        (value(first, item, kind)?, value(last, item, kind)?)
    } else {
        let from = value(base, item, kind)?;
        (from, if step.is_some() { kind.max } else { from })
    };
    // A range over the end goes on from the start, and its steps count along. So a 7 is the Sunday before Monday where
    // a range starts, and the one after Saturday where it ends.
    let length = if from <= to { to - from } else { to + count - from };
    let offsets = (0..=length).step_by(step.unwrap_or(1) as usize);
    Ok(offsets.fold(0, |set, n| set | 1 << (kind.min + (from - kind.min + n) % count)))
}

fn step(text: Part<'_>, item: Part<'_>, kind: &Field) -> Result<u32, ParseError> {
    let count = kind.max - kind.min + 1;
    let hint = format!("a step of {} is 1 to {count}", kind.many);
    if text.text.is_empty() {
        return Err(item.error(format!("{} has no step after the `/`", quote(item.text))).with_hint(hint));
    }
    if !text.text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(text.error(format!("{} is not a step", quote(text.text))).with_hint(hint));
    }
    number(text)
        .filter(|step| (1..=count).contains(step))
        .ok_or_else(|| text.error(format!("step {} is out of range", short(text.text))).with_hint(hint))
}

/// A number or a name, in the range of the field.
fn value(text: Part<'_>, item: Part<'_>, kind: &Field) -> Result<u32, ParseError> {
    if let Some(index) = kind.names.iter().position(|name| name.eq_ignore_ascii_case(text.text)) {
        return Ok(kind.min + index as u32);
    }
    if text.text.is_empty() || !text.text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(unknown(text, item, kind));
    }
    number(text).filter(|value| (kind.min..=kind.top).contains(value)).ok_or_else(|| {
        text.error(format!("{} {} is out of range", kind.one, short(text.text)))
            .with_hint(format!("{} are {}", kind.many, kind.range))
    })
}

fn unknown(text: Part<'_>, item: Part<'_>, kind: &Field) -> ParseError {
    let place = if text.text.is_empty() { item } else { text };
    let article = if kind.one == "hour" { "an" } else { "a" };
    let hint = match suggest::closest(text.text, kind.names.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("{} are {}", kind.many, kind.range),
    };
    place.error(format!("{} is not {article} {}", quote(place.text), kind.one)).with_hint(hint)
}

/// A number for a message: as it is when it is short.
fn short(number: &str) -> String {
    if number.len() <= 12 { number.to_owned() } else { quote(number) }
}

/// A number of nothing but ASCII digits; `None` when it is none or past any field's range.
fn number(text: Part<'_>) -> Option<u32> {
    if text.text.is_empty() || !text.text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.text.parse().ok()
}
