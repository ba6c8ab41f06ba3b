//! Times, durations and states in words.

use std::time::Duration;

use anarchon_schedule::interval;

use crate::clock::from_ms;
use crate::run::{ActiveRun, AttemptRecord, Pause, Status};
use crate::slot::Slot;

/// Between whole seconds, and what is shorter than that in ms: `2m5s`, `350ms`.
pub(super) fn duration(duration: Duration) -> String {
    let ms = duration.as_millis();
    let whole = if ms < 10_000 { duration } else { Duration::from_secs(duration.as_secs()) };
    interval::format(whole)
}

/// The time from one instant to another, in ms, zero when that is before.
pub(super) fn between(from: i64, to: i64) -> String {
    duration(from_ms(to.saturating_sub(from)))
}

/// A point of store time.
pub(super) fn time(ms: i64) -> String {
    Slot::from_ms(ms).to_string()
}

/// Slots in one line: the first one, and how much later the others are.
pub(super) fn slots(slots: &[i64]) -> String {
    let Some((first, later)) = slots.split_first() else { return String::new() };
    let later = later.iter().map(|slot| format!(", +{}", interval::format(from_ms(slot.saturating_sub(*first)))));
    std::iter::once(time(*first)).chain(later).collect()
}

/// The status of an attempt.
pub(super) fn status_of(attempt: &AttemptRecord) -> &'static str {
    attempt.status.map_or("unknown", |status| status.as_str())
}

/// How long an attempt took, or has taken until now.
pub(super) fn took(attempt: &AttemptRecord) -> String {
    attempt.ended_at.map_or_else(String::new, |ended| between(attempt.claimed_at, ended))
}

/// Where an unfinished run is.
pub(super) fn whereabouts(run: &ActiveRun) -> String {
    let instance = run.instance.as_ref().map_or("unknown", |id| id.as_str());
    let (attempt, left) = (run.attempt, duration(run.left));
    match run.status {
        Status::Waiting if run.left.is_zero() => format!("attempt {} is due", attempt.saturating_add(1)),
        Status::Waiting => format!("attempt {} in {left}", attempt.saturating_add(1)),
        _ if run.left.is_zero() => format!("{instance}, whose lease is over"),
        _ => instance.to_owned(),
    }
}

/// Who paused a job, since when and why.
pub(super) fn paused(pause: &Pause) -> String {
    let note = if pause.note.is_empty() { String::new() } else { format!(": {}", pause.note) };
    format!("paused since {} by {}{note}", time(pause.at), pause.by)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_as_fine_as_they_are_short() {
        assert_eq!(duration(Duration::from_millis(350)), "350ms");
        assert_eq!(duration(Duration::from_millis(9_450)), "9s450ms");
        assert_eq!(duration(Duration::from_millis(125_450)), "2m5s");
        assert_eq!(between(5, 3), "0s");
    }

    #[test]
    fn of_several_slots_the_first_is_said_in_full() {
        let day = 86_400_000;
        assert_eq!(slots(&[0, 3_600_000, day]), "1970-01-01T00:00:00Z, +1h, +1d");
        assert_eq!(slots(&[]), "");
    }
}
