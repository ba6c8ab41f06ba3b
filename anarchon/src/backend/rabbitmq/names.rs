//! What queues are called, and which names fit.

use crate::slot::{JobName, Slot};

/// The longest prefix, in bytes: with the longest job name and what follows it a queue's name stays below the 255 bytes
/// that the protocol allows.
const LONGEST_PREFIX: usize = 96;

/// What all queues of a service begin with.
#[derive(Clone, Debug)]
pub(super) struct Names {
    prefix: String,
}

impl Names {
    pub(super) fn new(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into() }
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// What is wrong with the prefix.
    pub(super) fn wrong(&self) -> Option<String> {
        let prefix = &self.prefix;
        // The broker quotes names in texts that it cuts anywhere, and keeps `amq.` for itself.
        if prefix.len() > LONGEST_PREFIX || !prefix.bytes().all(|b| b.is_ascii_graphic() && b != b'\'') {
            return Some(format!(
                "`prefix` is {prefix:?}; it may have {LONGEST_PREFIX} ASCII characters, without blanks and `'`"
            ));
        }
        (prefix.starts_with("amq.") || prefix.is_empty()).then(|| {
            format!(
                "`prefix` is {prefix:?}; it must not be empty, nor begin with `amq.`, which the broker keeps for itself"
            )
        })
    }

    /// Why a job cannot be called so with this prefix.
    pub(super) fn refuse(&self, job: &JobName) -> Result<(), String> {
        match self.base(job).starts_with("amq.") {
            true => Err("together with `prefix` begins with `amq.`, which the broker keeps for itself".to_owned()),
            false => Ok(()),
        }
    }

    fn base(&self, job: &JobName) -> String {
        format!("{}{job}.", self.prefix)
    }

    /// The queue whose existence means that a slot is taken.
    pub(super) fn slot(&self, job: &JobName, slot: Slot) -> String {
        format!("{}{}", self.base(job), slot.ms())
    }

    /// The queue that holds a job's history.
    pub(super) fn history(&self, job: &JobName) -> String {
        format!("{}history", self.base(job))
    }

    /// The queue that whoever reads a job's history has to itself.
    pub(super) fn reading(&self, job: &JobName) -> String {
        format!("{}reading", self.base(job))
    }

    /// A queue to try a claim with. No job's queue is called like that.
    pub(super) fn trial(&self, token: crate::slot::Token) -> String {
        format!("{}.trial.{token}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str) -> JobName {
        JobName::new(name).unwrap()
    }

    #[test]
    fn what_the_broker_keeps_for_itself_is_refused() {
        assert!(Names::new("cron.").refuse(&job("q")).is_ok());
        assert!(Names::new("amq").refuse(&job("x")).is_ok());
        assert!(Names::new("am").refuse(&job("q")).is_err(), "amq.123 is the broker's");
    }

    #[test]
    fn the_longest_names_fit_into_the_protocol() {
        let (names, job) = (Names::new("p".repeat(LONGEST_PREFIX)), job(&"n".repeat(128)));
        assert_eq!(names.wrong(), None);
        for name in [names.slot(&job, Slot::from_ms(i64::MIN)), names.history(&job), names.reading(&job)] {
            assert!(name.len() <= 255, "{}", name.len());
        }
    }

    #[test]
    fn a_prefix_is_checked() {
        for (prefix, fits) in [
            ("cron.", true),
            ("billing.cron.", true),
            ("", false),
            ("amq.", false),
            ("it's.", false),
            ("a b", false),
            ("größe.", false),
        ] {
            assert_eq!(Names::new(prefix).wrong().is_none(), fits, "{prefix}");
        }
        assert!(Names::new("p".repeat(LONGEST_PREFIX + 1)).wrong().is_some());
    }
}
