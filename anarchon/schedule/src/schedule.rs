use std::time::Duration;

use crate::zone::TZDATA_VERSION;
use crate::{At, Cron, Every, words};

/// When a job runs: the one type that the rest of anarchon deals with.
///
/// All times are milliseconds since the Unix epoch, and all answers depend on the arguments alone.
///
/// # Example: a grid asked in both directions
///
/// ```
/// use std::time::Duration;
/// use anarchon_schedule::{Every, Schedule};
///
/// let hourly = Schedule::from(Every::new(Duration::from_secs(3600), Duration::ZERO)?);
/// assert_eq!(hourly.next(3_600_000), Some(7_200_000)); // strictly after
/// assert_eq!(hourly.latest(3_600_000), Some(3_600_000)); // at or before
/// assert_eq!(hourly.next(i64::MAX), None); // no slot is left
/// # Ok::<(), anarchon_schedule::ParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// Again and again, on a grid.
    Every(Every),
    /// When the clock of a zone shows certain times.
    Cron(Cron),
    /// Once.
    At(At),
}

impl Schedule {
    /// The first slot strictly after `after_ms`, or `None` when none is left.
    pub fn next(&self, after_ms: i64) -> Option<i64> {
        match self {
            Self::Every(every) => every.next(after_ms),
            Self::Cron(cron) => cron.next(after_ms),
            Self::At(at) => at.next(after_ms),
        }
    }

    /// The last slot at or before `at_ms`, or `None` when there was none yet.
    ///
    /// However long ago the last run was, this finds the newest slot by calculation and never walks over those in
    /// between.
    pub fn latest(&self, at_ms: i64) -> Option<i64> {
        match self {
            Self::Every(every) => every.latest(at_ms),
            Self::Cron(cron) => cron.latest(at_ms),
            Self::At(at) => at.latest(at_ms),
        }
    }

    /// What makes two schedules the same: kind, expression, offset, zone and dialect.
    ///
    /// The text is the same in all releases, so it may be stored and compared. It leaves out the release of the time
    /// zone database; [`fingerprint`](Self::fingerprint) has both.
    ///
    /// ```
    /// use anarchon_schedule::{Cron, Dialect, Schedule, zone};
    ///
    /// let paris = zone::parse("Europe/Paris")?;
    /// let digest = Schedule::from(Cron::parse("0  8 * * MON-FRI", Dialect::Unix, paris)?);
    /// assert_eq!(digest.identity(), "cron unix Europe/Paris 0 8 * * MON-FRI");
    /// # Ok::<(), anarchon_schedule::ParseError>(())
    /// ```
    pub fn identity(&self) -> String {
        match self {
            Self::Every(every) => every.identity(),
            Self::Cron(cron) => cron.identity(),
            Self::At(at) => at.identity(),
        }
    }

    /// The [`identity`](Self::identity) and the release of the time zone database: equal fingerprints compute equal
    /// slots.
    pub fn fingerprint(&self) -> String {
        format!("{} tzdata {TZDATA_VERSION}", self.identity())
    }

    /// A few plain words for tables and logs, such as `every 1h` or `cron 0 8 * * MON-FRI (Europe/Paris)`.
    pub fn describe(&self) -> String {
        match self {
            Self::Every(every) => every.describe(),
            Self::Cron(cron) => cron.describe(),
            Self::At(at) => at.describe(),
        }
    }

    /// The schedule for people who do not read cron lines: `every 1 h`, `cron 0 2 * * * (at 02:00 every day)`,
    /// `once at 2027-01-01T00:00:00Z`. A line that is none of the usual ones stands for itself. The zone is not in it; see
    /// [`zone_name`](Self::zone_name).
    ///
    /// ```
    /// use anarchon_schedule::{Cron, Dialect, Schedule, zone};
    ///
    /// let in_words = |line| Cron::parse(line, Dialect::Unix, zone::Tz::UTC).map(|cron| Schedule::from(cron).in_words());
    /// assert_eq!(in_words("0 8 * * MON-FRI")?, "cron 0 8 * * MON-FRI (at 08:00, Monday to Friday)");
    /// assert_eq!(in_words("0 8 15W * *")?, "cron 0 8 15W * *");
    /// # Ok::<(), anarchon_schedule::ParseError>(())
    /// ```
    pub fn in_words(&self) -> String {
        match self {
            Self::Every(every) => words::every(every),
            Self::Cron(cron) => words::cron(cron),
            Self::At(at) => at.describe(),
        }
    }

    /// The IANA name of the zone in which a cron line is read; `None` for a grid and an instant, which have none.
    pub fn zone_name(&self) -> Option<&str> {
        match self {
            Self::Cron(cron) => Some(cron.zone().name()),
            Self::Every(_) | Self::At(_) => None,
        }
    }

    /// The time from `slot_ms` to the slot after it, or `None` when that was the last one.
    pub fn gap_after(&self, slot_ms: i64) -> Option<Duration> {
        let next = self.next(slot_ms)?;
        Some(Duration::from_millis(next.abs_diff(slot_ms)))
    }

    /// The shortest time between two slots that follow each other: exact for a grid, that of some first slots for a cron
    /// line, and `None` for an instant, which has one slot.
    pub fn shortest_gap(&self) -> Option<Duration> {
        if let Self::Every(every) = self {
            return Some(every.interval());
        }
        // Any stretch of slots will do, so it begins at the epoch.
        let mut slot = self.next(0)?;
        let mut shortest = None;
        for _ in 0..64 {
            let Some(next) = self.next(slot) else { break };
            let gap = next.abs_diff(slot);
            shortest = Some(shortest.map_or(gap, |s: u64| s.min(gap)));
            slot = next;
        }
        shortest.map(Duration::from_millis)
    }
}

impl From<Every> for Schedule {
    fn from(every: Every) -> Self {
        Self::Every(every)
    }
}

impl From<Cron> for Schedule {
    fn from(cron: Cron) -> Self {
        Self::Cron(cron)
    }
}

impl From<At> for Schedule {
    fn from(at: At) -> Self {
        Self::At(at)
    }
}
