//! Intervals as people write them: `"500ms"`, `"10s"`, `"1h30m"`, `"40d"`.

use std::fmt::Write as _;
use std::time::Duration;

use crate::error::{ParseError, quote};

/// Longest first: a written interval goes from large to small and names each unit once.
const UNITS: [(&str, u64); 6] =
    [("w", 604_800_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// A hundred years. Anything longer is a mistake, and below it milliseconds never come near the end of an `i64`.
const LONGEST_MS: u64 = 36_525 * 86_400_000;

/// Reads an interval: one or more numbers, each with a unit (`w`, `d`, `h`, `m`, `s`, `ms`), from large to small.
///
/// `"0s"` is an interval; a caller for which zero makes no sense refuses it.
///
/// # Errors
///
/// When the text has another form, names a unit twice or out of order, or means more than 36525 days (a hundred years).
///
/// # Example: what is read and what is refused
///
/// ```
/// use std::time::Duration;
/// use anarchon_schedule::interval;
///
/// assert_eq!(interval::parse("1h30m")?, Duration::from_secs(5400));
/// assert_eq!(interval::parse("40d")?, Duration::from_secs(40 * 86_400));
///
/// let error = interval::parse("10x").unwrap_err();
/// assert_eq!(error.to_string(), "not an interval; write a number and a unit: `500ms`, `30s`, `10m`, `1h` or `1d`");
/// # Ok::<(), anarchon_schedule::ParseError>(())
/// ```
pub fn parse(text: &str) -> Result<Duration, ParseError> {
    let mut total: u64 = 0;
    let mut smallest: Option<usize> = None;
    let mut at = 0;
    while smallest.is_none() || at < text.len() {
        let rest = &text.as_bytes()[at..];
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let letters = rest[digits..].iter().take_while(|b| b.is_ascii_alphabetic()).count();
        let end = at + digits + letters;
        let unit = text.get(at + digits..end).unwrap_or_default();
        let known = UNITS.iter().position(|(name, _)| *name == unit);
        let (1.., Some(index)) = (digits, known) else {
            return Err(ParseError::new("not an interval")
                .at(0..text.len())
                .with_hint("write a number and a unit: `500ms`, `30s`, `10m`, `1h` or `1d`"));
        };
        if smallest.is_some_and(|before| index <= before) {
            return Err(ParseError::new(format!("`{unit}` after {}", quote(&text[..at])))
                .at(at..end)
                .with_hint("write each unit once, from large to small: `1h30m`"));
        }
        let number = text[at..at + digits].parse::<u64>().ok();
        total = number
            .and_then(|n| n.checked_mul(UNITS[index].1))
            .and_then(|ms| total.checked_add(ms))
            .filter(|ms| *ms <= LONGEST_MS)
            .ok_or_else(|| {
                ParseError::new("this interval is too long").at(0..text.len()).with_hint("the longest is `36525d`")
            })?;
        smallest = Some(index);
        at = end;
    }
    Ok(Duration::from_millis(total))
}

/// Writes an interval in the form that [`parse`] reads, with days as the largest unit. What is shorter than a
/// millisecond is dropped.
///
/// ```
/// use std::time::Duration;
/// use anarchon_schedule::interval;
///
/// assert_eq!(interval::format(Duration::from_secs(5400)), "1h30m");
/// assert_eq!(interval::format(Duration::from_millis(1500)), "1s500ms");
/// assert_eq!(interval::format(Duration::ZERO), "0s");
/// ```
pub fn format(interval: Duration) -> String {
    let mut left = interval.as_millis();
    if left == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (name, ms) in &UNITS[1..] {
        let count = left / u128::from(*ms);
        left %= u128::from(*ms);
        if count > 0 {
            let _ = write!(text, "{count}{name}");
        }
    }
    text
}
