//! The rule for names, shared by the macro and the runtime.

/// The most bytes a name may have.
pub const MAX_BYTES: usize = 128;

/// What is wrong with a job's name, or `None` when it is good: 1 to 128 bytes of UTF-8, no control characters, no
/// blank at either end.
///
/// ```
/// use anarchon_schedule::name::fault;
/// assert_eq!(fault("nightly export"), None);
/// assert_eq!(fault(""), Some("it is empty"));
/// ```
#[must_use]
pub fn fault(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("it is empty")
    } else if name.len() > MAX_BYTES {
        Some("it is longer than 128 bytes")
    } else if name.chars().any(char::is_control) {
        Some("it has a control character")
    } else if name.starts_with(char::is_whitespace) || name.ends_with(char::is_whitespace) {
        Some("it begins or ends with a blank")
    } else {
        None
    }
}
