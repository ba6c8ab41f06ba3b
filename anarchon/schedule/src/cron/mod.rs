mod advice;
mod civil;
mod dst;
mod parse;
mod quartz;

use std::fmt;
use std::str::FromStr;

use crate::error::{ParseError, quote};
use crate::suggest;
use crate::zone::Tz;
use civil::Civil;

pub(crate) use civil::{Date, date_from_days, days_from_date, month_length};
pub(crate) use dst::resolve;

/// Which rules a cron line is read by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// The rules of crontab files: 5 fields, or 6 with seconds first; 0 and 7 are Sunday.
    #[default]
    Unix,
    /// The rules of Quartz and of the `cron` crate: 6 fields with seconds first, or 7 with a year last; 1 is Sunday; a
    /// day must satisfy both day fields.
    Quartz,
}

impl Dialect {
    fn name(self) -> &'static str {
        match self {
            Self::Unix => "unix",
            Self::Quartz => "quartz",
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Dialect {
    type Err = ParseError;

    /// Reads `unix` or `quartz`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let all = [Self::Unix, Self::Quartz];
        if let Some(dialect) = all.into_iter().find(|dialect| dialect.name() == text) {
            return Ok(dialect);
        }
        let hint = match suggest::closest(text, all.map(Self::name)) {
            Some(name) => format!("did you mean `{name}`?"),
            None => "write `unix` or `quartz`".to_owned(),
        };
        Err(ParseError::new(format!("unknown dialect {}", quote(text))).at(0..text.len()).with_hint(hint))
    }
}

/// A cron line in a time zone.
///
/// # Fields
///
/// Minute, hour, day of the month, month, day of the week; with six fields the first is the second.
///
/// | in a field | means |
/// |---|---|
/// | `*` | every value (`?` too, in the two day fields) |
/// | `5`, `1-5`, `1,15` | a value, a range, a list of items |
/// | `*/15`, `10-50/20`, `5/15` | every n-th value of a range, or from a value on |
/// | `22-2`, `FRI-MON` | a range that goes over the end and on from the start |
/// | `JAN`, `mon` | names of months and weekdays, three letters in any case |
/// | `L`, `L-3`, `LW`, `15W` | day of the month: the last, 3 before it, the last workday, the workday nearest to the 15th |
/// | `FRI#3`, `5L` | day of the week: the third Friday, the last Friday |
///
/// Sunday is both 0 and 7. When one of the day fields starts with `*` or `?`, a day must satisfy both of them,
/// otherwise one is enough. `@hourly`, `@daily`, `@midnight`, `@weekly`, `@monthly`, `@yearly` and `@annually` stand
/// for the usual lines.
///
/// # Clock changes
///
/// A line whose second, minute or hour field starts with `*` follows the clock as it is shown: nothing happens at times
/// that a clock change leaves out, and times that come twice count twice. Any other line names fixed times. One that is
/// left out runs at the first instant after the change (several in one gap are one slot), and one that comes twice runs
/// the first time only. When the clock jumps by more than 3 hours, as where a zone moved over the date line, nothing is
/// made up for.
///
/// So mind two lines: `*/30 2 * * *` does nothing on a day without a two o'clock (`0,30 2 * * *` makes up for it), and
/// `0 0-23 * * *` leaves out the second pass of a repeated hour (`0 * * * *` doesn't).
///
/// The tables of time zones end with the year 2099, and later times keep each zone's last offset.
///
/// # Example: a day without its two o'clock
///
/// ```
/// use anarchon_schedule::{Cron, Dialect, Schedule, zone};
///
/// let new_york = zone::parse("America/New_York")?;
/// let nightly = Schedule::from(Cron::parse("30 2 * * *", Dialect::Unix, new_york)?);
/// // from noon on 2026-03-07: 03:00 local time on the 8th, then 02:30 on the 9th
/// assert_eq!(nightly.next(1_772_902_800_000), Some(1_772_953_200_000));
/// assert_eq!(nightly.next(1_772_953_200_000), Some(1_773_037_800_000));
/// # Ok::<(), anarchon_schedule::ParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Cron {
    times: Civil,
    expression: Box<str>,
    zone: Tz,
    dialect: Dialect,
    /// Follows the clock as it is shown, over gaps and repeated hours.
    wild: bool,
}

impl Cron {
    /// Reads a cron line.
    ///
    /// # Errors
    ///
    /// When the line doesn't follow the dialect, or when the date it names can never come (30 February). The error's
    /// span is the part of `expression` that is wrong.
    pub fn parse(expression: &str, dialect: Dialect, zone: Tz) -> Result<Self, ParseError> {
        let line = match dialect {
            Dialect::Unix => parse::line(expression)?,
            Dialect::Quartz => quartz::line(expression)?,
        };
        Ok(Self { times: line.times, expression: line.text, zone, dialect, wild: line.wild })
    }

    /// The line as it was written, with single spaces between the fields.
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// The dialect that the line is written in.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The zone whose clock the line follows.
    pub fn zone(&self) -> Tz {
        self.zone
    }

    pub(crate) fn next(&self, after_ms: i64) -> Option<i64> {
        dst::next(&self.times, self.zone, self.wild, after_ms.div_euclid(1000))?.checked_mul(1000)
    }

    pub(crate) fn latest(&self, at_ms: i64) -> Option<i64> {
        dst::latest(&self.times, self.zone, self.wild, at_ms.div_euclid(1000))?.checked_mul(1000)
    }

    pub(crate) fn identity(&self) -> String {
        format!("cron {} {} {}", self.dialect, self.zone.name(), self.expression)
    }

    pub(crate) fn describe(&self) -> String {
        let dialect = match self.dialect {
            Dialect::Unix => "",
            Dialect::Quartz => "quartz ",
        };
        format!("cron {dialect}{} ({})", self.expression, self.zone.name())
    }
}
