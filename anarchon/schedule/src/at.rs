use std::ops::Range;

use crate::cron::{Date, date_from_days, days_from_date, month_length, resolve};
use crate::error::{ParseError, quote};
use crate::zone::Tz;

/// One instant: a schedule with a single slot.
///
/// # Example: new year in Tokyo, written in two ways
///
/// ```
/// use anarchon_schedule::{At, Schedule, zone};
///
/// let tokyo = zone::parse("Asia/Tokyo")?;
/// let new_year = At::parse("2027-01-01T00:00:00", Some(tokyo))?;
/// assert_eq!(new_year, At::parse("2027-01-01T00:00:00+09:00", None)?);
///
/// let schedule = Schedule::from(new_year);
/// assert_eq!(schedule.next(0), Some(1_798_729_200_000));
/// assert_eq!(schedule.next(1_798_729_200_000), None);
///
/// let error = At::parse("2027-01-01T00:00:00Z", Some(tokyo)).unwrap_err();
/// assert_eq!(error.to_string(), "both an offset and a time zone; leave out one of them");
/// # Ok::<(), anarchon_schedule::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct At {
    instant_ms: i64,
}

impl At {
    /// Reads an instant: a local time in `zone` (UTC without one), or an RFC 3339 time with its own offset.
    ///
    /// `2027-01-01T00:00:00`, `2027-01-01 00:00` and `2027-01-01T00:00:00.250` are local times;
    /// `2027-01-01T00:00:00+09:00` and `2027-01-01T00:00:00Z` have an offset. A local time that a clock change leaves
    /// out is the first instant after the change, and one that comes twice is the first of the two.
    ///
    /// # Errors
    ///
    /// When the text has another form, names a date or time that no calendar or clock has, is finer than a
    /// millisecond, has an offset although a zone is given, or lies in a day that the zone left out altogether.
    pub fn parse(text: &str, zone: Option<Tz>) -> Result<Self, ParseError> {
        let start = text.len() - text.trim_ascii_start().len();
        let mut reader = Reader { text: text.trim_ascii_end(), at: start };
        let date_at = start..start + 10;
        let year = reader.number(4)?;
        reader.one_of(b"-")?;
        let month = reader.between(2, 1..=12, "month")?;
        reader.one_of(b"-")?;
        let day = reader.number(2)?;
        let date = Date { year: i64::from(year), month, day };
        if !(1..=month_length(date.year, month)).contains(&day) {
            return Err(
                ParseError::new(format!("no calendar has the date {}", quote(&text[date_at.clone()]))).at(date_at)
            );
        }
        reader.one_of(b"Tt ")?;
        let hour = reader.between(2, 0..=23, "hour")?;
        reader.one_of(b":")?;
        let minute = reader.between(2, 0..=59, "minute")?;
        let second = if reader.skip(b":") { reader.between(2, 0..=59, "second")? } else { 0 };
        let mut ms = if reader.skip(b".") { reader.milliseconds()? } else { 0 };
        let wall = days_from_date(date) * 86_400 + i64::from(hour * 3600 + minute * 60 + second);
        let offset_at = reader.at;
        let instant = match reader.offset()? {
            Some(offset) if zone.is_none() => wall - offset,
            Some(_) => {
                let error = ParseError::new("both an offset and a time zone").at(offset_at..reader.at);
                return Err(error.with_hint("leave out one of them"));
            }
            None => {
                let zone = zone.unwrap_or(Tz::UTC);
                let (instant, shown) = resolve(zone, wall).ok_or_else(|| {
                    ParseError::new(format!("this day never came in {}", zone.name())).at(start..reader.at)
                })?;
                if !shown {
                    ms = 0;
                }
                instant
            }
        };
        // four digits of year are far from the ends of an `i64`
        Ok(Self { instant_ms: instant * 1000 + i64::from(ms) })
    }

    /// The instant, in milliseconds since the Unix epoch.
    pub fn instant_ms(&self) -> i64 {
        self.instant_ms
    }

    pub(crate) fn next(&self, after_ms: i64) -> Option<i64> {
        (self.instant_ms > after_ms).then_some(self.instant_ms)
    }

    pub(crate) fn latest(&self, at_ms: i64) -> Option<i64> {
        (self.instant_ms <= at_ms).then_some(self.instant_ms)
    }

    pub(crate) fn identity(&self) -> String {
        format!("at {}", self.instant_ms)
    }

    pub(crate) fn describe(&self) -> String {
        let (seconds, ms) = (self.instant_ms.div_euclid(1000), self.instant_ms.rem_euclid(1000));
        let Date { year, month, day } = date_from_days(seconds.div_euclid(86_400));
        let second = seconds.rem_euclid(86_400);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let fraction = if ms == 0 { String::new() } else { format!(".{ms:03}") };
        format!("once at {year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
    }
}

/// Reads from left to right; each step either takes what it wants or says what it wanted.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &[u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    fn not_a_time(&self) -> ParseError {
        let start = self.text.len() - self.text.trim_ascii_start().len();
        ParseError::new("not a date and time")
            .at(start..self.text.len())
            .with_hint("write `2027-01-01T00:00:00`, or `2027-01-01T00:00:00Z` with an offset")
    }

    fn number(&mut self, digits: usize) -> Result<u32, ParseError> {
        let text = self.rest().get(..digits).filter(|text| text.iter().all(u8::is_ascii_digit));
        let number = text
            .ok_or_else(|| self.not_a_time())?
            .iter()
            .fold(0, |number, digit| number * 10 + u32::from(digit - b'0'));
        self.at += digits;
        Ok(number)
    }

    fn between(
        &mut self,
        digits: usize,
        allowed: std::ops::RangeInclusive<u32>,
        what: &str,
    ) -> Result<u32, ParseError> {
        let span: Range<usize> = self.at..self.at + digits;
        let number = self.number(digits)?;
        if allowed.contains(&number) {
            return Ok(number);
        }
        let hint = format!("{what}s are {}-{}", allowed.start(), allowed.end());
        Err(ParseError::new(format!("{what} {number} is out of range")).at(span).with_hint(hint))
    }

    fn skip(&mut self, wanted: &[u8]) -> bool {
        let found = self.rest().first().is_some_and(|byte| wanted.contains(byte));
        self.at += usize::from(found);
        found
    }

    fn one_of(&mut self, wanted: &[u8]) -> Result<(), ParseError> {
        if self.skip(wanted) { Ok(()) } else { Err(self.not_a_time()) }
    }

    /// The digits after a full stop, as milliseconds.
    fn milliseconds(&mut self) -> Result<u32, ParseError> {
        let digits = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        let span = self.at..self.at + digits;
        if !(1..=9).contains(&digits) {
            return Err(self.not_a_time());
        }
        let fraction = self.number(digits)? * 10_u32.pow(9 - digits as u32);
        if !fraction.is_multiple_of(1_000_000) {
            return Err(ParseError::new("a time is no finer than a millisecond")
                .at(span)
                .with_hint("write at most 3 digits"));
        }
        Ok(fraction / 1_000_000)
    }

    /// What stands after the time, in seconds ahead of UTC.
    fn offset(&mut self) -> Result<Option<i64>, ParseError> {
        if self.rest().is_empty() {
            return Ok(None);
        }
        let sign = match self.rest()[0] {
            b'Z' | b'z' => 0,
            b'+' => 1,
            b'-' => -1,
            _ => return Err(self.not_a_time()),
        };
        self.at += 1;
        let offset = if sign == 0 {
            0
        } else {
            let hours = self.between(2, 0..=23, "offset hour")?;
            self.one_of(b":")?;
            sign * i64::from(hours * 3600 + self.between(2, 0..=59, "offset minute")? * 60)
        };
        if self.rest().is_empty() { Ok(Some(offset)) } else { Err(self.not_a_time()) }
    }
}
