use std::fmt::{self, Write as _};
use std::ops::Range;

/// What is wrong with a text that should name an interval, a zone, a cron line or an instant.
///
/// The error knows the place in the text, so that a macro can put a caret under it at compile time and a service can
/// show the same caret when the text came from a database.
///
/// # Example: pointing at the mistake
///
/// ```
/// use anarchon_schedule::{Cron, Dialect, zone::Tz};
///
/// let line = "0 25 * * *";
/// let error = Cron::parse(line, Dialect::Unix, Tz::UTC).unwrap_err();
/// assert_eq!(error.message(), "hour 25 is out of range");
/// assert_eq!(error.hint(), Some("hours are 0-23"));
/// assert_eq!(error.to_string(), "hour 25 is out of range; hours are 0-23");
/// assert_eq!(error.span(), Some(2..4));
/// assert_eq!(error.caret(line), "0 25 * * *\n  ^^");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", Tail(.hint))]
pub struct ParseError {
    message: Box<str>,
    span: Option<Range<usize>>,
    hint: Option<Box<str>>,
}

struct Tail<'a>(&'a Option<Box<str>>);

impl fmt::Display for Tail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

/// Longer inputs are cut to a window around the caret, in characters.
const WINDOW: usize = 100;

impl ParseError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into().into_boxed_str(), span: None, hint: None }
    }

    pub(crate) fn at(mut self, span: Range<usize>) -> Self {
        self.span = Some(span);
        self
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into().into_boxed_str());
        self
    }

    /// What is wrong, in lower case and without a full stop.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Where it is wrong, in bytes of the input; `None` when the input as a whole is meant.
    pub fn span(&self) -> Option<Range<usize>> {
        self.span.clone()
    }

    /// What to write instead, when there is something to say.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The input on one line and below it a line of carets under the part that is wrong.
    ///
    /// `input` is the text that was parsed. Control characters are replaced, so the answer always has exactly two
    /// lines, and a long input is cut to the part around the carets. Columns are counted in characters.
    pub fn caret(&self, input: &str) -> String {
        let span = self.span.clone().unwrap_or(0..input.len());
        let (mut first, mut width) = (0_usize, 0_usize);
        let mut chars = Vec::new();
        for (at, c) in input.char_indices() {
            if at < span.start {
                first += 1;
            } else if at < span.end {
                width += 1;
            }
            chars.push(match c {
                '\t' | '\n' | '\r' => ' ',
                c if unprintable(c) => char::REPLACEMENT_CHARACTER,
                c => c,
            });
        }
        let width = width.clamp(1, WINDOW);
        let (mut start, mut end) = (0, chars.len());
        if chars.len() > WINDOW {
            start = first.saturating_sub((WINDOW - width) / 2).min(chars.len());
            end = (start + WINDOW).min(chars.len());
        }
        let mut text = String::new();
        let mut column = first - start;
        if start > 0 {
            text.push('…');
            column += 1;
        }
        text.extend(&chars[start..end]);
        if end < chars.len() {
            text.push('…');
        }
        let _ = write!(text, "\n{:column$}{}", "", "^".repeat(width));
        text
    }
}

/// Control characters, and those that turn the direction of a line or take no room: none may reach a terminal from a
/// user's text.
fn unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// A user's text as it may stand in a message: in backticks, short, on one line.
pub(crate) fn quote(text: &str) -> String {
    const LONGEST: usize = 40;
    let mut quoted = String::from("`");
    for (n, c) in text.chars().enumerate() {
        if n == LONGEST {
            quoted.push('…');
            break;
        }
        quoted.push(if unprintable(c) { char::REPLACEMENT_CHARACTER } else { c });
    }
    quoted.push('`');
    quoted
}
