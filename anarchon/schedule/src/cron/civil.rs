//! Wall time without a zone: which seconds of which days a line names, and how to find the next or previous one.
//!
//! A wall time is a number of seconds since 1970-01-01T00:00:00 on the clock on the wall. Everything is bit sets and
//! integer arithmetic over the proleptic Gregorian calendar, total for any `i64` a caller can have.

const DAY: i64 = 86_400;

/// 29 February falls on a given weekday at least once in 40 years, and every other combination of date and weekday
/// more often.
const SEARCH_YEARS: i64 = 41;

/// The last of the six places for each weekday in `Civil::nth`: the last one of the month.
pub(super) const LAST: u32 = 6;

/// The sets that a line names. Bit n stands for the value n.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Civil {
    pub(super) seconds: u64,
    pub(super) minutes: u64,
    pub(super) hours: u32,
    pub(super) months: u16,
    /// Days of the month.
    pub(super) days: u32,
    /// Bit n: n days before the last day of the month.
    pub(super) before_last: u32,
    /// Bit n: the Monday to Friday of the same month that is nearest to day n.
    pub(super) nearest: u32,
    /// The last Monday to Friday of the month.
    pub(super) last_workday: bool,
    /// Days of the week, Sunday = bit 0.
    pub(super) weekdays: u8,
    /// Bit 6 w + k - 1: the k-th weekday w of the month; k = 6 is the last.
    pub(super) nth: u64,
    /// A day must satisfy both day fields, not just one.
    pub(super) both: bool,
    /// In ascending order; none = all years.
    pub(super) years: Option<Box<[u16]>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Date {
    pub(crate) year: i64,
    pub(crate) month: u32,
    pub(crate) day: u32,
}

/// Days since the epoch, by counting years from 1 March so that the leap day comes last.
pub(crate) fn days_from_date(date: Date) -> i64 {
    let year = if date.month <= 2 { date.year - 1 } else { date.year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let month = (i64::from(date.month) + 9) % 12;
    let of_year = (153 * month + 2) / 5 + i64::from(date.day) - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

pub(crate) fn date_from_days(days: i64) -> Date {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + i64::from(month <= 2);
    // both are small: 1-12 and 1-31
    Date { year, month: month as u32, day: day as u32 }
}

pub(crate) fn month_length(year: i64, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// The weekday of a day since the epoch, Sunday = 0. The epoch was a Thursday.
fn weekday(days: i64) -> u32 {
    (days + 4).rem_euclid(7) as u32
}

/// The lowest value of `set` that is at least `from`.
fn at_least(set: u64, from: u32) -> Option<u32> {
    let rest = set.checked_shr(from)?;
    (rest != 0).then(|| from + rest.trailing_zeros())
}

/// The highest value of `set` that is at most `to`.
fn at_most(set: u64, to: u32) -> Option<u32> {
    let rest = if to >= 63 { set } else { set & ((2 << to) - 1) };
    (rest != 0).then(|| 63 - rest.leading_zeros())
}

impl Civil {
    /// The first matching wall time strictly after `after`.
    pub(super) fn next(&self, after: i64) -> Option<i64> {
        let from = after.checked_add(1)?;
        let (days, second) = (from.div_euclid(DAY), from.rem_euclid(DAY) as u32);
        let today = date_from_days(days);
        let mut start = today;
        if self.has_day(today)
            && let Some(second) = self.next_time(second)
        {
            return Some(days * DAY + i64::from(second));
        }
        // 32 and 13 are past any day and month, so the search moves on by itself
        start.day += 1;
        let date = self.next_day(start)?;
        Some(days_from_date(date) * DAY + i64::from(self.next_time(0)?))
    }

    /// The last matching wall time at or before `at`.
    pub(super) fn previous(&self, at: i64) -> Option<i64> {
        let (days, second) = (at.div_euclid(DAY), at.rem_euclid(DAY) as u32);
        let today = date_from_days(days);
        let mut start = today;
        if self.has_day(today)
            && let Some(second) = self.previous_time(second)
        {
            return Some(days * DAY + i64::from(second));
        }
        start.day -= 1;
        let date = self.previous_day(start)?;
        Some(days_from_date(date) * DAY + i64::from(self.previous_time(86_399)?))
    }

    /// Whether the line names any day at all.
    pub(super) fn is_possible(&self) -> bool {
        // every kind of year comes up in any 41 years
        let year = self.years.as_ref().and_then(|years| years.first()).map_or(2000, |year| i64::from(*year));
        self.next_day(Date { year, month: 1, day: 1 }).is_some()
    }

    fn next_day(&self, from: Date) -> Option<Date> {
        let (mut month, mut day) = (from.month, from.day);
        let last = from.year + SEARCH_YEARS;
        let mut year = self.year_at_least(from.year)?;
        if year > from.year {
            (month, day) = (1, 1);
        }
        loop {
            while let Some(found) = at_least(self.months.into(), month) {
                if found > month {
                    day = 1;
                }
                if let Some(day) = at_least(self.month_days(year, found).into(), day) {
                    return Some(Date { year, month: found, day });
                }
                (month, day) = (found + 1, 1);
            }
            year = self.year_at_least(year + 1)?;
            if self.years.is_none() && year > last {
                return None;
            }
            (month, day) = (1, 1);
        }
    }

    fn previous_day(&self, from: Date) -> Option<Date> {
        let (mut month, mut day) = (from.month, from.day);
        let first = from.year - SEARCH_YEARS;
        let mut year = self.year_at_most(from.year)?;
        if year < from.year {
            (month, day) = (12, 31);
        }
        loop {
            while let Some(found) = at_most(self.months.into(), month) {
                if found < month {
                    day = 31;
                }
                if let Some(day) = at_most(self.month_days(year, found).into(), day) {
                    return Some(Date { year, month: found, day });
                }
                (month, day) = (found - 1, 31);
            }
            year = self.year_at_most(year - 1)?;
            if self.years.is_none() && year < first {
                return None;
            }
            (month, day) = (12, 31);
        }
    }

    fn year_at_least(&self, year: i64) -> Option<i64> {
        let Some(years) = &self.years else {
            return Some(year);
        };
        let index = years.partition_point(|y| i64::from(*y) < year);
        years.get(index).map(|y| i64::from(*y))
    }

    fn year_at_most(&self, year: i64) -> Option<i64> {
        let Some(years) = &self.years else {
            return Some(year);
        };
        let index = years.partition_point(|y| i64::from(*y) <= year);
        years[..index].last().map(|y| i64::from(*y))
    }

    fn has_day(&self, date: Date) -> bool {
        self.year_at_least(date.year) == Some(date.year)
            && self.months & (1 << date.month) != 0
            && self.month_days(date.year, date.month) & (1 << date.day) != 0
    }

    /// The days of one month that the line names.
    fn month_days(&self, year: i64, month: u32) -> u32 {
        let length = month_length(year, month);
        let first = weekday(days_from_date(Date { year, month, day: 1 }));
        let whole = u32::MAX >> (31 - length) & !1;
        let by_date = self.days | self.special_days(length, first);
        // the week over and over, moved so that bit 0 is the weekday of the first
        let weeks = (0..6).fold(0_u64, |weeks, n| weeks | u64::from(self.weekdays) << (7 * n));
        let by_weekday = ((weeks >> first) << 1) as u32 | self.nth_days(length, first);
        whole & if self.both { by_date & by_weekday } else { by_date | by_weekday }
    }

    fn special_days(&self, length: u32, first: u32) -> u32 {
        if self.before_last == 0 && self.nearest == 0 && !self.last_workday {
            return 0;
        }
        let of = |day: u32| (first + day - 1) % 7;
        let mut days = 0;
        for n in bits(self.before_last.into()).take_while(|n| *n < length) {
            days |= 1 << (length - n);
        }
        for day in bits(self.nearest.into()).take_while(|day| *day <= length) {
            days |= 1
                << match of(day) {
                    6 if day == 1 => 3,
                    6 => day - 1,
                    0 if day == length => day - 2,
                    0 => day + 1,
                    _ => day,
                };
        }
        if self.last_workday {
            days |= 1
                << match of(length) {
                    6 => length - 1,
                    0 => length - 2,
                    _ => length,
                };
        }
        days
    }

    fn nth_days(&self, length: u32, first: u32) -> u32 {
        let mut days = 0;
        for bit in bits(self.nth) {
            let (weekday, k) = (bit / 6, bit % 6 + 1);
            let one = 1 + (7 + weekday - first) % 7;
            let day = if k == LAST { one + (length - one) / 7 * 7 } else { one + 7 * (k - 1) };
            if day <= length {
                days |= 1 << day;
            }
        }
        days
    }

    /// The first second of the day at or after `second`.
    fn next_time(&self, second: u32) -> Option<u32> {
        let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
        let (first_m, first_s) = (at_least(self.minutes, 0)?, at_least(self.seconds, 0)?);
        if self.hours & (1 << h) != 0 {
            if self.minutes & (1 << m) != 0
                && let Some(s) = at_least(self.seconds, s)
            {
                return Some(h * 3600 + m * 60 + s);
            }
            if let Some(m) = at_least(self.minutes, m + 1) {
                return Some(h * 3600 + m * 60 + first_s);
            }
        }
        let h = at_least(self.hours.into(), h + 1)?;
        Some(h * 3600 + first_m * 60 + first_s)
    }

    /// The last second of the day at or before `second`.
    fn previous_time(&self, second: u32) -> Option<u32> {
        let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
        let (last_m, last_s) = (at_most(self.minutes, 59)?, at_most(self.seconds, 59)?);
        if self.hours & (1 << h) != 0 {
            if self.minutes & (1 << m) != 0
                && let Some(s) = at_most(self.seconds, s)
            {
                return Some(h * 3600 + m * 60 + s);
            }
            if let Some(m) = m.checked_sub(1).and_then(|m| at_most(self.minutes, m)) {
                return Some(h * 3600 + m * 60 + last_s);
            }
        }
        let h = h.checked_sub(1).and_then(|h| at_most(self.hours.into(), h))?;
        Some(h * 3600 + last_m * 60 + last_s)
    }
}

/// The values of a set, from low to high.
fn bits(mut set: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (set != 0).then(|| set.trailing_zeros())?;
        set &= set - 1;
        Some(bit)
    })
}
