//! What must hold in every log.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::log::Line;
use crate::node::Death;

/// One start of a handler, and how it ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// The line of its start.
    pub start: Line,
    /// The line of its `end` or `cancelled`, if it wrote one.
    pub end: Option<Line>,
    /// When it ended at the latest: then, or when its process was killed or frozen for good.
    pub end_ns: Option<u64>,
}

impl Attempt {
    /// The slot.
    ///
    /// # Panics
    /// Never: a start has one.
    #[must_use]
    pub fn slot(&self) -> i64 {
        self.start.slot.expect("a start has a slot")
    }

    /// The attempt's number.
    ///
    /// # Panics
    /// Never: a start has one.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.start.attempt.expect("a start has a number")
    }

    /// The job's name.
    ///
    /// # Panics
    /// Never: a start has one.
    #[must_use]
    pub fn job(&self) -> &str {
        self.start.job.as_deref().expect("a start has a job")
    }
}

/// Pairs starts with ends, in the order of the starts.
///
/// # Panics
/// When one handler ends twice.
#[must_use]
pub fn attempts(lines: &[Line], deaths: &[Death]) -> Vec<Attempt> {
    let mut ends: HashMap<&str, &Line> = HashMap::new();
    for line in lines.iter().filter(|line| line.event == "end" || line.event == "cancelled") {
        let token = line.token.as_deref().expect("an end has a token");
        assert!(ends.insert(token, line).is_none(), "it ends twice: {line:?}");
    }
    let mut attempts: Vec<Attempt> = lines
        .iter()
        .filter(|line| line.event == "start")
        .map(|start| {
            let end = ends.get(start.token.as_deref().expect("a start has a token")).copied();
            let death = deaths.iter().filter(|d| d.pid == start.pid && d.mono_ns >= start.mono_ns).map(|d| d.mono_ns);
            let end_ns = match (end, death.min()) {
                // It woke up without its lease: what counts is when it froze.
                (Some(end), Some(frozen)) if end.event == "cancelled" => Some(end.mono_ns.min(frozen)),
                (Some(end), _) => Some(end.mono_ns),
                (None, death) => death,
            };
            Attempt { start: start.clone(), end: end.cloned(), end_ns }
        })
        .collect();
    attempts.sort_by_key(|attempt| attempt.start.mono_ns);
    attempts
}

/// Every attempt was started once, and fences tell all attempts of a job apart.
///
/// # Panics
/// When that does not hold.
pub fn no_attempt_twice(attempts: &[Attempt]) {
    let mut seen = HashSet::new();
    let mut fences = HashSet::new();
    for attempt in attempts {
        let start = &attempt.start;
        let key = (attempt.job(), attempt.slot(), attempt.number());
        assert!(start.reason.as_deref() == Some("manual") || seen.insert(key), "started twice: {start:?}");
        assert!(fences.insert((attempt.job(), start.fence)), "a fence used twice: {start:?}");
    }
}

/// Of a job with `overlap = "skip"`, no two attempts run at once, and fences rise from start to start.
///
/// # Panics
/// When that does not hold.
pub fn never_two_at_once(attempts: &[Attempt]) {
    no_attempt_twice(attempts);
    let mut jobs: BTreeMap<&str, Vec<&Attempt>> = BTreeMap::new();
    for attempt in attempts {
        jobs.entry(attempt.job()).or_default().push(attempt);
    }
    for attempts in jobs.values() {
        for (earlier, later) in attempts.iter().zip(attempts.iter().skip(1)) {
            let over = earlier.end_ns.is_some_and(|end| end <= later.start.mono_ns);
            assert!(over, "two at once: {:?} (until {:?}) and {:?}", earlier.start, earlier.end_ns, later.start);
            assert!(earlier.start.fence < later.start.fence, "no rise from {:?} to {:?}", earlier.start, later.start);
        }
    }
}

/// The slots of a job that were started, each as often as it was, in order.
#[must_use]
pub fn started_slots(attempts: &[Attempt], job: &str) -> Vec<i64> {
    let mut slots: Vec<i64> = attempts.iter().filter(|a| a.job() == job).map(Attempt::slot).collect();
    slots.sort_unstable();
    slots
}

/// The slots of a grid after `from` and up to `to`, in ms.
#[must_use]
pub fn grid(every: i64, from: i64, to: i64) -> Vec<i64> {
    let first = (from.div_euclid(every) + 1) * every;
    (first..=to).step_by(usize::try_from(every).unwrap_or(1)).collect()
}

/// Each of the `owed` slots was started exactly once. Slots after them are left out, as the processes may have been
/// stopped in the middle of them.
///
/// # Panics
/// When that does not hold.
pub fn each_once(attempts: &[Attempt], job: &str, owed: &[i64]) {
    once(attempts, job, owed);
}

/// Each of the `owed` slots came to its end exactly once, however often it was started.
///
/// # Panics
/// When that does not hold.
pub fn each_ended_once(attempts: &[Attempt], job: &str, owed: &[i64]) {
    let ended = |attempt: &&Attempt| attempt.end.as_ref().is_some_and(|end| end.event == "end");
    once(&attempts.iter().filter(ended).cloned().collect::<Vec<_>>(), job, owed);
}

fn once(attempts: &[Attempt], job: &str, owed: &[i64]) {
    let mut run = started_slots(attempts, job);
    run.retain(|slot| Some(slot) <= owed.last());
    let twice: Vec<&[i64]> = run.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "`{job}` ran slots twice: {twice:?}");
    let missing: Vec<&i64> = owed.iter().filter(|slot| run.binary_search(slot).is_err()).collect();
    assert!(missing.is_empty(), "`{job}` did not run {missing:?} of {} slots owed", owed.len());
}
