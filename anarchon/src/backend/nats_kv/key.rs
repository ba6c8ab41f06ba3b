//! What a job's key is. Keys take few characters, and names of jobs take nearly all.

use crate::slot::{JobName, is_plain};

/// What the keys of jobs begin with.
pub(super) const JOB: &str = "job.";

/// The key whose stamps tell the time of servers that do not tell it otherwise.
pub(super) const CLOCK: &str = "clock";

/// The key of a job: its name, in which each byte but those of letters, digits, `_` and `-` is written as `=` and two hex
/// digits.
pub(super) fn of(job: &JobName) -> String {
    let mut key = JOB.to_owned();
    for byte in job.as_str().bytes() {
        if is_plain(char::from(byte)) {
            key.push(char::from(byte));
        } else {
            key.push_str(&format!("={byte:02X}"));
        }
    }
    key
}

/// The job whose key this is, without [`JOB`].
pub(super) fn read(key: &str) -> Option<JobName> {
    let mut bytes = Vec::new();
    let mut rest = key.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'=' {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            let (high, low) = (digit()?, digit()?);
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    JobName::new(String::from_utf8(bytes).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::jetstream::wrong_name as wrong_bucket;

    #[test]
    fn a_key_is_of_one_job_and_says_which() {
        for (name, key) in [
            ("sync-all_2", "job.sync-all_2"),
            ("a.b", "job.a=2Eb"),
            ("a=2Eb", "job.a=3D2Eb"),
            ("a b>*", "job.a=20b=3E=2A"),
            ("é", "job.=C3=A9"),
        ] {
            let job = JobName::new(name).unwrap();
            assert_eq!(of(&job), key);
            assert_eq!(key.strip_prefix(JOB).and_then(read), Some(job));
        }
        for wrong in ["", "a=", "a=2", "a=2X", "=FF"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_bucket_that_servers_would_take_apart_is_refused() {
        for wrong in ["", "a.b", "a b", "a*", ">", "é", &"x".repeat(129)] {
            assert!(wrong_bucket("bucket", wrong).is_some(), "{wrong}");
        }
        assert_eq!(wrong_bucket("bucket", "billing_cron-2"), None);
    }
}
