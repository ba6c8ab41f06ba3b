//! Pure rules of history: its order, and where it is cut.

use std::cmp::Reverse;

use crate::run::Record;
use crate::slot::Slot;

/// The newest `limit` records, newest first: by slot, then by fence, since an attempt that was returned and the one after
/// it share their number, and may share the millisecond of their claims; then, without fences, by claim and attempt.
#[must_use]
pub(crate) fn newest(mut records: Vec<Record>, limit: u32) -> Vec<Record> {
    records.sort_by_key(|record| Reverse(order(record)));
    records.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    records
}

fn order(record: &Record) -> (Slot, Option<u64>, i64, u32) {
    match record {
        Record::Attempt(a) => (a.run.slot, a.fence, a.claimed_at, a.attempt),
        Record::Skipped(s) => (s.last, None, 0, 0),
    }
}

/// The slot below which records are beyond the newest `size` of `slots` (newest first, one per record); `None` when
/// there are no more than `size`.
#[must_use]
pub(crate) fn cut(slots: &[Slot], size: u32) -> Option<Slot> {
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    if slots.len() <= size {
        return None;
    }
    match size.checked_sub(1) {
        Some(last_kept) => slots.get(last_kept).copied(),
        None => Some(Slot::from_ms(i64::MAX)),
    }
}
