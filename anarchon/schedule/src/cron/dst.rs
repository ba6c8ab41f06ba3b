//! From wall times to instants, over the clock changes of a zone. All instants are seconds since the epoch.
//!
//! Between two changes a zone's clock is the instant plus a fixed offset, and there the wall times of a line become
//! instants by a subtraction. What remains is the change itself: only one that is near the start of a search or near
//! its candidate can matter, for a line names no wall time between the two. A change is found by comparing offsets and
//! bisecting, because the tables have no public list. No step goes over midnight or any other wall time, which may not
//! exist.

use chrono::{DateTime, Offset, TimeZone};
use chrono_tz::Tz;

use super::civil::Civil;

/// More than any clock was ever moved: the date line is worth 24 hours.
const REACH: i64 = 26 * 3600;

/// How far around an instant changes are looked for. No zone has two of them within even 3 days.
const WINDOW: i64 = 2 * REACH;

/// A fixed time in a longer gap is not made up for: there the zone left out a day, not an hour.
const LONGEST_GAP: i64 = 3 * 3600;

/// The clock goes from one offset to another: `at` is the first instant with the new one.
#[derive(Clone, Copy)]
struct Change {
    at: i64,
    before: i64,
    after: i64,
}

impl Change {
    /// What the clock would have shown at the change without it.
    fn old_wall(self) -> i64 {
        self.at + self.before
    }

    /// What the clock shows at the change.
    fn new_wall(self) -> i64 {
        self.at + self.after
    }

    /// Whether fixed times in this gap run right after it.
    fn makes_up(self) -> bool {
        (1..=LONGEST_GAP).contains(&(self.after - self.before))
    }
}

/// The first slot strictly after `after`.
pub(super) fn next(times: &Civil, zone: Tz, wild: bool, after: i64) -> Option<i64> {
    if zone == Tz::UTC {
        return times.next(after);
    }
    // settled: every instant up to `now`, every wall time up to `wall`
    let (mut now, mut offset) = (after, offset_at(zone, after));
    let mut wall = now + offset;
    if !wild && let Some(change) = change_within(zone, now - REACH, now) {
        wall = wall.max(change.old_wall() - 1);
    }
    loop {
        let found = times.next(wall)?;
        let slot = found - offset;
        if let Some(change) = change_within(zone, now, slot.min(now + WINDOW)) {
            if !wild && change.makes_up() && found < change.new_wall() {
                return Some(change.at);
            }
            let repeats = change.before > change.after;
            wall = if repeats && !wild { change.old_wall() } else { change.new_wall() } - 1;
            (now, offset) = (change.at, change.after);
        } else if slot <= now + WINDOW {
            return Some(slot);
        } else {
            now = slot - REACH;
            offset = offset_at(zone, now);
            wall = found - 1;
        }
    }
}

/// The last slot at or before `at`.
pub(super) fn latest(times: &Civil, zone: Tz, wild: bool, at: i64) -> Option<i64> {
    if zone == Tz::UTC {
        return times.previous(at);
    }
    // settled: every instant after `now`, every wall time after `wall`
    let (mut now, mut offset) = (at, offset_at(zone, at));
    let mut wall = now + offset;
    loop {
        let found = times.previous(wall);
        if let Some(change) = change_within(zone, now - WINDOW, now) {
            let first = if wild { change.new_wall() } else { change.new_wall().max(change.old_wall()) };
            if let Some(found) = found.filter(|found| *found >= first) {
                return Some(found - offset);
            }
            if !wild && change.makes_up() {
                let missed = times.previous(change.new_wall() - 1);
                if missed.is_some_and(|missed| missed >= change.old_wall()) {
                    return Some(change.at);
                }
            }
            (now, offset) = (change.at - 1, change.before);
            wall = now + offset;
        } else {
            let found = found?;
            let slot = found - offset;
            if slot >= now - REACH {
                return Some(slot);
            }
            now = slot + REACH;
            offset = offset_at(zone, now);
            wall = found;
        }
    }
}

/// The instant of one fixed wall time, and whether the clock really shows it; `None` when the zone left out the whole
/// day.
pub(crate) fn resolve(zone: Tz, wall: i64) -> Option<(i64, bool)> {
    match change_within(zone, wall - REACH, wall + REACH) {
        None => Some((wall - offset_at(zone, wall), true)),
        Some(change) if wall < change.old_wall() => Some((wall - change.before, true)),
        Some(change) if wall >= change.new_wall() => Some((wall - change.after, true)),
        Some(change) => change.makes_up().then_some((change.at, false)),
    }
}

/// The offset change in `from + 1 ..= to`, which are at most a window apart.
fn change_within(zone: Tz, from: i64, to: i64) -> Option<Change> {
    if to <= from {
        return None;
    }
    let (before, after) = (offset_at(zone, from), offset_at(zone, to));
    if before == after {
        return None;
    }
    let (mut low, mut high) = (from, to);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if offset_at(zone, middle) == before {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(Change { at: high, before, after })
}

/// What the zone's clock is ahead of UTC, in seconds.
fn offset_at(zone: Tz, instant: i64) -> i64 {
    // the calendar of chrono ends before an `i64` does, and the tables long before that
    const END: i64 = 8_000_000_000_000;
    let instant = DateTime::from_timestamp(instant.clamp(-END, END), 0).unwrap_or_default();
    i64::from(zone.offset_from_utc_datetime(&instant.naive_utc()).fix().local_minus_utc())
}
