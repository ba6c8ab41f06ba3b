//! Time zones by their IANA names.

use std::str::FromStr;

pub use chrono_tz::Tz;

use crate::error::{ParseError, quote};
use crate::suggest;

/// The release of the time zone database that this build carries, such as `"2025b"`.
///
/// Instances with different releases may compute different slots for the same cron line, which is why it is part of a
/// fingerprint. The tables end with the year 2099; later times keep each zone's last offset.
pub const TZDATA_VERSION: &str = chrono_tz::IANA_TZDB_VERSION;

/// Reads an IANA zone name such as `"Europe/Paris"` or `"UTC"`, in its exact spelling.
///
/// # Errors
///
/// When there is no such zone. The hint names the one that was probably meant: for another spelling, a city alone, an
/// abbreviation such as `PST`, or an offset such as `UTC+2`.
///
/// # Example: a slip of the pen
///
/// ```
/// use anarchon_schedule::zone;
///
/// assert_eq!(zone::parse("Asia/Tokyo")?, zone::Tz::Asia__Tokyo);
/// let error = zone::parse("Europe/Pari").unwrap_err();
/// assert_eq!(error.to_string(), "unknown time zone `Europe/Pari`; did you mean `Europe/Paris`?");
/// # Ok::<(), anarchon_schedule::ParseError>(())
/// ```
pub fn parse(name: &str) -> Result<Tz, ParseError> {
    if let Ok(zone) = Tz::from_str(name) {
        return Ok(zone);
    }
    let message = if name.trim().is_empty() {
        "an empty time zone".to_owned()
    } else {
        format!("unknown time zone {}", quote(name))
    };
    let hint = match meant(name) {
        Some(zone) => format!("did you mean `{zone}`?"),
        None if fixed_offset(name) => {
            "an offset is not a zone; write a place such as `Europe/Paris`, or `UTC`".to_owned()
        }
        None => "write an IANA name such as `Europe/Paris`, `America/New_York` or `UTC`".to_owned(),
    };
    Err(ParseError::new(message).at(0..name.len()).with_hint(hint))
}

/// Abbreviations that people write for a zone. Ambiguous ones (`IST`, `BST`, `CST`) stand for the place most people
/// mean.
const ABBREVIATIONS: [(&str, &str); 24] = [
    ("ACST", "Australia/Adelaide"),
    ("AEDT", "Australia/Sydney"),
    ("AEST", "Australia/Sydney"),
    ("AKST", "America/Anchorage"),
    ("AWST", "Australia/Perth"),
    ("BRT", "America/Sao_Paulo"),
    ("BST", "Europe/London"),
    ("CDT", "America/Chicago"),
    ("CEST", "Europe/Paris"),
    ("CST", "America/Chicago"),
    ("EDT", "America/New_York"),
    ("EEST", "Europe/Helsinki"),
    ("HKT", "Asia/Hong_Kong"),
    ("IST", "Asia/Kolkata"),
    ("JST", "Asia/Tokyo"),
    ("KST", "Asia/Seoul"),
    ("MDT", "America/Denver"),
    ("MSK", "Europe/Moscow"),
    ("NZST", "Pacific/Auckland"),
    ("PDT", "America/Los_Angeles"),
    ("PST", "America/Los_Angeles"),
    ("SGT", "Asia/Singapore"),
    ("WEST", "Europe/Lisbon"),
    ("Z", "UTC"),
];

fn meant(name: &str) -> Option<&'static str> {
    let word = name.trim();
    if word.len() > 60 {
        return None;
    }
    let word = word.replace([' ', '-'], "_");
    let names = || chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name());
    let same = |name: &str| {
        let bytes = name.bytes().map(|b| if b == b'-' { b'_' } else { b });
        name.len() == word.len() && bytes.zip(word.bytes()).all(|(a, b)| a.eq_ignore_ascii_case(&b))
    };
    if let Some(zone) = names().find(|zone| same(zone)) {
        return Some(zone);
    }
    if let Some((_, zone)) = ABBREVIATIONS.iter().find(|(short, _)| short.eq_ignore_ascii_case(&word)) {
        return Some(zone);
    }
    if fixed_offset(name) {
        return None;
    }
    // a city without its region
    let city = |zone: &str| zone.rsplit_once('/').is_some_and(|(_, city)| same(city));
    names().find(|zone| city(zone)).or_else(|| suggest::closest(&word, names()))
}

/// `+02:00`, `UTC+2`, `GMT-5`: an offset, with or without a word before it.
fn fixed_offset(name: &str) -> bool {
    let word = name.trim().to_ascii_uppercase();
    let rest = word.strip_prefix("UTC").or_else(|| word.strip_prefix("GMT")).unwrap_or(&word);
    rest.strip_prefix(['+', '-']).is_some_and(|digits| {
        digits.starts_with(|c: char| c.is_ascii_digit()) && digits.chars().all(|c| c.is_ascii_digit() || c == ':')
    })
}
