//! The small words everything else is made of: [`Slot`], [`Token`], [`InstanceId`], [`JobName`] and [`Place`].

use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, SecondsFormat, Utc};
use uuid::Uuid;

use crate::error::Error;

/// A scheduled time: milliseconds since the Unix epoch. Together with a job's name it is the identity of a run.
///
/// ```
/// let slot = anarchon::Slot::from_ms(1_767_225_600_000);
/// assert_eq!(slot.to_string(), "2026-01-01T00:00:00Z");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Slot(i64);

impl Slot {
    /// The slot at `ms` milliseconds since the Unix epoch.
    #[must_use]
    pub const fn from_ms(ms: i64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub const fn ms(self) -> i64 {
        self.0
    }

    /// The same instant as a date and time; instants that chrono cannot express become the epoch.
    #[must_use]
    pub fn to_datetime(self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.0).unwrap_or_default()
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_datetime().to_rfc3339_opts(SecondsFormat::AutoSi, true))
    }
}

/// A random value (UUID version 4), new for each attempt. Every write after the claim proves itself with it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(Uuid);

impl Token {
    /// A token from 16 random bytes.
    #[must_use]
    pub fn from_random_bytes(bytes: [u8; 16]) -> Self {
        Self(uuid::Builder::from_random_bytes(bytes).into_uuid())
    }

    /// A new random token.
    #[must_use]
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// Reads a token back from its text form; `None` when `text` is not a UUID.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Uuid::try_parse(text).ok().map(Self)
    }

    /// Its digits, without what is between them.
    #[cfg(feature = "redis")]
    pub(crate) fn hex(self) -> [u8; 32] {
        let mut digits = [0; 32];
        self.0.as_simple().encode_lower(&mut digits);
        digits
    }

    /// Its bytes, for stores that keep them as they are.
    #[cfg(feature = "nats")]
    pub(crate) fn to_bytes(self) -> [u8; 16] {
        self.0.into_bytes()
    }

    /// From the bytes that [`to_bytes`](Self::to_bytes) gave.
    #[cfg(feature = "nats")]
    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The name of one running scheduler: by default `<host>-<pid>-<8 random hex digits>`.
///
/// Neither the host nor the pid alone would do: in containers every process is pid 1.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstanceId(Arc<str>);

impl InstanceId {
    /// An instance id from a text of 1 to 128 bytes without control characters.
    ///
    /// # Errors
    /// [`Error::InstanceId`] when the text is empty, too long, or has control characters.
    pub fn new(id: impl Into<String>) -> Result<Self, Error> {
        let id = id.into();
        match name_fault(&id) {
            Some(reason) => Err(Error::InstanceId { id, reason }),
            None => Ok(Self(id.into())),
        }
    }

    pub(crate) fn generate(random: u32) -> Self {
        let host = host_name();
        Self(format!("{host}-{}-{random:08x}", std::process::id()).into())
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn raw_host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn raw_host_name() -> String {
    std::env::var("HOSTNAME").or_else(|_| std::env::var("COMPUTERNAME")).unwrap_or_default()
}

fn host_name() -> String {
    let name: String = raw_host_name().chars().filter(|c| !c.is_control() && !c.is_whitespace()).take(64).collect();
    if name.is_empty() { "host".to_owned() } else { name }
}

/// A job's name, which is its identity on every store: 1 to 128 bytes of UTF-8, no control characters, no blank at
/// either end, compared byte by byte.
///
/// ```
/// use anarchon::JobName;
/// assert!(JobName::new("nightly export").is_ok());
/// assert!(JobName::new(" padded ").is_err());
/// assert!(JobName::new("").is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobName(Arc<str>);

/// Whether a name of a queue, a subject or a stream may have this sign, whatever the signs beside it.
pub(crate) fn is_plain(sign: char) -> bool {
    sign.is_ascii_alphanumeric() || sign == '_' || sign == '-'
}

impl JobName {
    /// Checks and keeps a name.
    ///
    /// # Errors
    /// [`Error::JobName`], which says what is wrong with it.
    pub fn new(name: impl Into<String>) -> Result<Self, Error> {
        let name = name.into();
        match name_fault(&name) {
            Some(reason) => Err(Error::JobName { name, reason }),
            None => Ok(Self(name.into())),
        }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text itself, shared.
    #[cfg(feature = "metrics")]
    pub(crate) fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }

    /// Why a store cannot take this name for which it is a part of a queue's or a subject's name. The text continues
    /// "`name` …".
    pub(crate) fn not_plain(&self) -> Option<String> {
        let other = self.as_str().chars().find(|sign| !is_plain(*sign))?;
        Some(format!(
            "has a {other:?}, and may have only ASCII letters, digits, `_` and `-` on this store, where it is a part of \
             queues' or subjects' names"
        ))
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl AsRef<str> for JobName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for JobName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

fn name_fault(name: &str) -> Option<&'static str> {
    anarchon_schedule::name::fault(name)
}

/// Where something was declared: a file and a line of the user's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The source file, as the compiler names it.
    pub file: &'static str,
    /// The line, from 1.
    pub line: u32,
}

impl Place {
    #[track_caller]
    pub(crate) fn caller() -> Self {
        let at = std::panic::Location::caller();
        Self { file: at.file(), line: at.line() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_not_plain_is_told_with_the_sign_that_is_not() {
        for (name, sign) in [
            ("a.b", "'.'"),
            ("nightly export", "' '"),
            ("a/b", "'/'"),
            ("a*", "'*'"),
            (">", "'>'"),
            ("größe", "'ö'"),
            ("é", "'é'"),
        ] {
            let why = JobName::new(name).unwrap().not_plain().unwrap();
            assert!(why.contains(sign), "{why}");
        }
        assert_eq!(JobName::new("Sync-users_2").unwrap().not_plain(), None);
    }
}
