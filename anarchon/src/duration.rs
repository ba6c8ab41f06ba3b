//! Durations as users write them: a `Duration`, or a text such as `"1h30m"`.

use std::time::Duration;

use anarchon_schedule::{ParseError, interval};

/// A duration, or a text that is one: `"500ms"`, `"10s"`, `"1h30m"`, `"40d"`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no duration",
    label = "write a text such as `\"10s\"`, or a `Duration`"
)]
pub trait IntoDuration {
    /// The duration, or what is wrong with the text, together with the text.
    ///
    /// # Errors
    /// When the text is no duration, or one of more than 36525 days.
    fn into_duration(self) -> Result<Duration, (String, ParseError)>;
}

#[diagnostic::do_not_recommend]
impl IntoDuration for Duration {
    /// A `Duration` is bound as a text is, to a hundred years: no sum of a few can overflow then.
    fn into_duration(self) -> Result<Duration, (String, ParseError)> {
        let text = interval::format(self);
        match interval::parse(&text) {
            Ok(_) => Ok(self),
            Err(error) => Err((text, error)),
        }
    }
}

#[diagnostic::do_not_recommend]
impl IntoDuration for &str {
    fn into_duration(self) -> Result<Duration, (String, ParseError)> {
        interval::parse(self).map_err(|error| (self.to_owned(), error))
    }
}

#[diagnostic::do_not_recommend]
impl IntoDuration for String {
    fn into_duration(self) -> Result<Duration, (String, ParseError)> {
        self.as_str().into_duration()
    }
}

#[diagnostic::do_not_recommend]
impl IntoDuration for &String {
    fn into_duration(self) -> Result<Duration, (String, ParseError)> {
        self.as_str().into_duration()
    }
}
