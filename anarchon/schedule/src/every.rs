use std::time::Duration;

use crate::error::ParseError;
use crate::interval;

/// An interval on a grid that is anchored at the Unix epoch, so that all instances compute the same slots whenever
/// they start.
///
/// The slots are the multiples of the interval since 1970-01-01T00:00:00Z, plus the offset. A day's grid falls on
/// midnight UTC, and that of seven days on Thursdays, for the epoch was one: the offset moves it. A grid knows no time
/// zone and no clock change.
///
/// # Example: a week that starts on Monday
///
/// ```
/// use std::time::Duration;
/// use anarchon_schedule::{Every, Schedule};
///
/// let day = Duration::from_secs(86_400);
/// let mondays = Schedule::from(Every::new(7 * day, 4 * day)?);
/// // 2026-01-15 is a Thursday; the next slot is Monday 2026-01-19T00:00:00Z
/// assert_eq!(mondays.next(1_768_471_650_000), Some(1_768_780_800_000));
///
/// let error = Every::new(Duration::ZERO, Duration::ZERO).unwrap_err();
/// assert_eq!(error.to_string(), "an interval of `0s` is too short; the shortest is `100ms`");
/// # Ok::<(), anarchon_schedule::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Every {
    interval_ms: i64,
    offset_ms: i64,
}

const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(36_525 * 86_400);

impl Every {
    /// A grid of `interval`, moved to later by `offset`.
    ///
    /// # Errors
    ///
    /// When the interval is shorter than 100 ms or longer than 36525 days, when either is not a whole number of
    /// milliseconds, or when the offset is not shorter than the interval. The error has no span: a duration has no
    /// text.
    pub fn new(interval: Duration, offset: Duration) -> Result<Self, ParseError> {
        for duration in [interval, offset] {
            if duration.subsec_nanos() % 1_000_000 != 0 {
                return Err(ParseError::new(format!("{duration:?} is not a whole number of milliseconds")));
            }
        }
        if interval < SHORTEST {
            let message = format!("an interval of `{}` is too short", interval::format(interval));
            return Err(ParseError::new(message).with_hint("the shortest is `100ms`"));
        }
        if interval > LONGEST {
            return Err(ParseError::new("this interval is too long").with_hint("the longest is `36525d`"));
        }
        if offset >= interval {
            let (offset, interval) = (interval::format(offset), interval::format(interval));
            let message = format!("an offset of `{offset}` is too long for an interval of `{interval}`");
            return Err(ParseError::new(message).with_hint("the offset must be shorter than the interval"));
        }
        let ms = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Ok(Self { interval_ms: ms(interval), offset_ms: ms(offset) })
    }

    /// The time between two slots.
    pub fn interval(&self) -> Duration {
        Duration::from_millis(self.interval_ms.unsigned_abs())
    }

    /// How much later than the multiples of the interval the slots are.
    pub fn offset(&self) -> Duration {
        Duration::from_millis(self.offset_ms.unsigned_abs())
    }

    pub(crate) fn next(&self, after_ms: i64) -> Option<i64> {
        after_ms.checked_add(self.interval_ms - self.past(after_ms))
    }

    pub(crate) fn latest(&self, at_ms: i64) -> Option<i64> {
        at_ms.checked_sub(self.past(at_ms))
    }

    /// How long before `ms` the last slot was, from 0 to less than the interval.
    fn past(&self, ms: i64) -> i64 {
        let wide = i128::from(ms) - i128::from(self.offset_ms);
        i64::try_from(wide.rem_euclid(i128::from(self.interval_ms))).unwrap_or(0)
    }

    pub(crate) fn identity(&self) -> String {
        format!("every {}+{}", self.interval_ms, self.offset_ms)
    }

    pub(crate) fn describe(&self) -> String {
        let interval = interval::format(self.interval());
        if self.offset_ms == 0 {
            format!("every {interval}")
        } else {
            format!("every {interval} + {}", interval::format(self.offset()))
        }
    }
}
