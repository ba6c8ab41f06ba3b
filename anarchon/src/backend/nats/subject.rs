//! What the subjects are: one for each slot, for each manual run, and for the end of each run.

use crate::run::RunKey;
use crate::slot::{JobName, Slot, Token, is_plain};

/// The subject whose stamps tell the time of servers that do not tell it otherwise; those of jobs have more parts.
pub(super) const CLOCK: &str = "clock";

/// What a subject is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// The claim of a run.
    Claim,
    /// Its end.
    End,
}

impl Of {
    const fn word(self) -> &'static str {
        match self {
            Self::Claim => "run",
            Self::End => "end",
        }
    }
}

/// All subjects of a job.
pub(super) fn all(prefix: &str, job: &JobName) -> String {
    format!("{prefix}{job}.>")
}

/// The subject of a run's claim or end. Its parts are the job, `run` or `end`, the slot, and of a manual run its token.
pub(super) fn of(prefix: &str, run: &RunKey, of: Of) -> String {
    let slot = run.slot.ms();
    match run.manual {
        None => format!("{prefix}{}.{}.{slot}", run.job, of.word()),
        Some(token) => format!("{prefix}{}.{}.{slot}.{token}", run.job, of.word()),
    }
}

/// What a subject of a job is about.
pub(super) fn read(prefix: &str, job: &JobName, subject: &str) -> Option<(Of, RunKey)> {
    let mut parts = subject.strip_prefix(prefix)?.strip_prefix(job.as_str())?.strip_prefix('.')?.split('.');
    let word = parts.next()?;
    let of = [Of::Claim, Of::End].into_iter().find(|of| of.word() == word)?;
    let slot = Slot::from_ms(parts.next()?.parse().ok()?);
    let manual = match parts.next() {
        Some(token) => Some(Token::parse(token)?),
        None => None,
    };
    Some((of, RunKey { job: job.clone(), slot, manual }))
}

/// Why this cannot be what subjects begin with.
pub(super) fn wrong_prefix(prefix: &str) -> Option<String> {
    let parts = prefix.strip_suffix('.').unwrap_or_default();
    let good = prefix.len() <= 128 && parts.split('.').all(|part| !part.is_empty() && part.chars().all(is_plain));
    (!good).then(|| {
        format!("`prefix` is {prefix:?}; it must be of letters, digits, `_` and `-`, in parts that each end with a dot")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::jetstream::wrong_name as wrong_stream;

    #[test]
    fn a_subject_is_of_one_run_and_says_which() {
        let job = JobName::new("sync-all_2").unwrap();
        let scheduled = RunKey::scheduled(job.clone(), Slot::from_ms(1000));
        let manual = RunKey::manual(job.clone(), Slot::from_ms(-5), Token::random());
        assert_eq!(of("cron.", &scheduled, Of::Claim), "cron.sync-all_2.run.1000");
        for run in [scheduled, manual] {
            for what in [Of::Claim, Of::End] {
                assert_eq!(read("a.b.", &job, &of("a.b.", &run, what)), Some((what, run.clone())));
            }
        }
        for wrong in
            ["cron.clock", "cron.sync.run.1", "cron.sync-all_2.run", "cron.sync-all_2.run.x", "x.sync-all_2.run.1"]
        {
            assert_eq!(read("cron.", &job, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn prefixes_and_streams_are_checked() {
        for good in ["cron.", "billing.cron."] {
            assert_eq!(wrong_prefix(good), None);
        }
        for wrong in ["", ".", "cron", "a..b.", "a*.", "$KV.x.", " cron."] {
            assert!(wrong_prefix(wrong).is_some(), "{wrong}");
        }
        assert_eq!(wrong_stream("stream", "CRON"), None);
        for wrong in ["", "a.b", "a b", ">"] {
            assert!(wrong_stream("stream", wrong).is_some(), "{wrong}");
        }
    }
}
