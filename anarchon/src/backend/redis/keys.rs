//! Names of keys: `<prefix>{<job>}` and what follows it, and `<prefix>jobs`, the index.

use crate::slot::JobName;

/// Not so long that keys cost more than what is in them.
const LONGEST_PREFIX: usize = 128;

/// What all keys of one service begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Keys(String);

impl Keys {
    pub(super) fn new(prefix: impl Into<String>) -> Self {
        Self(prefix.into())
    }

    /// What is wrong with the prefix, if anything is.
    pub(super) fn check(&self) -> Result<(), String> {
        let prefix = &self.0;
        let wrong = if prefix.is_empty() {
            "is empty, so that its keys could be anybody's"
        } else if prefix.len() > LONGEST_PREFIX {
            "is longer than 128 bytes"
        } else if prefix.contains(['{', '}']) {
            // A job's keys would no longer be on the node that its name says.
            "contains a brace"
        } else if prefix.chars().any(char::is_control) {
            "contains a control character"
        } else {
            return Ok(());
        };
        Err(format!("`prefix` {wrong}; write something like `billing:cron:`"))
    }

    pub(super) fn prefix(&self) -> &str {
        &self.0
    }

    /// The key of all jobs' names.
    pub(super) fn index(&self) -> String {
        format!("{}jobs", self.0)
    }

    /// The key of a job. Its name is the hash tag, so that all its keys are on one node of a cluster; what would end the
    /// tag is written as `%7D` and the like.
    pub(super) fn job(&self, job: &JobName) -> String {
        let mut key = String::with_capacity(self.0.len() + job.as_str().len() + 2);
        self.write_job(job, &mut key);
        key
    }

    /// The same at the end of a text.
    pub(super) fn write_job(&self, job: &JobName, key: &mut String) {
        key.push_str(&self.0);
        key.push('{');
        let mut rest = job.as_str();
        while let Some(at) = rest.find(|c: char| matches!(c, '%' | '{' | '}') || c.is_ascii_control()) {
            let (plain, after) = rest.split_at(at);
            key.push_str(plain);
            let mut after = after.chars();
            if let Some(c) = after.next() {
                key.push_str(&format!("%{:02X}", u32::from(c)));
            }
            rest = after.as_str();
        }
        key.push_str(rest);
        key.push('}');
    }

    /// The job whose key this is.
    pub(super) fn name(&self, key: &str) -> Option<JobName> {
        let encoded = key.strip_prefix(self.0.as_str())?.strip_prefix('{')?.strip_suffix('}')?;
        let mut parts = encoded.split('%');
        let mut name = parts.next()?.to_owned();
        for part in parts {
            let code = u8::from_str_radix(part.get(..2)?, 16).ok()?;
            name.push(char::from(code));
            name.push_str(part.get(2..)?);
        }
        JobName::new(name).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_back_from_its_key_and_no_two_share_one() {
        let keys = Keys::new("cron:");
        let names = ["a", "{a}", "%7Ba%7D", "}", "{", "%", "100%", "a{b}c", "sync ü 🦀", "a:h", "jobs", "%%", "é%2"];
        let mut seen = std::collections::HashSet::new();
        for name in names {
            let name = JobName::new(name).unwrap();
            let key = keys.job(&name);
            assert_eq!((key.matches('{').count(), key.matches('}').count()), (1, 1), "one hash tag in {key}");
            assert_eq!(keys.name(&key), Some(name));
            assert!(seen.insert(key));
        }
        assert_eq!(keys.job(&JobName::new("{a}").unwrap()), "cron:{%7Ba%7D}");
        for wrong in ["cron:a", "cron:{a", "other:{a}", "cron:{%}", "cron:{%zz}", "cron:{}"] {
            assert_eq!(keys.name(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_prefix_that_would_break_keys_is_refused() {
        for wrong in ["", "a{b", "a}", "a\n", &"x".repeat(129)] {
            assert!(Keys::new(wrong).check().is_err(), "{wrong:?}");
        }
        assert_eq!(Keys::new("billing:cron:").check(), Ok(()));
    }
}
