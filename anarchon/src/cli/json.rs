//! The parts of documents that several commands have in common.

use serde_json::{Value, json};

use super::text::time;
use crate::clock::to_ms;
use crate::run::{ActiveRun, AttemptRecord, Pause, Record, SkipRecord};

pub(super) fn attempt(record: &AttemptRecord) -> Value {
    json!({
        "slot": record.run.slot.to_string(),
        "slot_ms": record.run.slot.ms(),
        "manual": record.run.manual.map(|token| token.to_string()),
        "attempt": record.attempt,
        "reason": record.reason.as_str(),
        "instance": record.instance,
        "status": record.status.map(|status| status.as_str()),
        "run_status": record.run_status.map(|status| status.as_str()),
        "claimed_at": time(record.claimed_at),
        "ended_at": record.ended_at.map(time),
        "took_ms": record.ended_at.map(|ended| ended.saturating_sub(record.claimed_at)),
        "fence": record.fence,
        "error": record.error,
        "note": record.note,
    })
}

pub(super) fn skip(record: &SkipRecord) -> Value {
    json!({
        "first": record.first.to_string(),
        "last": record.last.to_string(),
        "count": record.count,
        "reason": record.reason.as_str(),
    })
}

pub(super) fn record(record: &Record) -> Value {
    let (kind, mut value) = match record {
        Record::Attempt(record) => ("attempt", attempt(record)),
        Record::Skipped(record) => ("skipped", skip(record)),
    };
    if let Some(fields) = value.as_object_mut() {
        fields.insert("kind".to_owned(), kind.into());
    }
    value
}

pub(super) fn active(run: &ActiveRun) -> Value {
    json!({
        "slot": run.run.slot.to_string(),
        "slot_ms": run.run.slot.ms(),
        "manual": run.run.manual.map(|token| token.to_string()),
        "status": run.status.as_str(),
        "attempt": run.attempt,
        "instance": run.instance.as_ref().map(|id| id.as_str()),
        "left_ms": to_ms(run.left),
    })
}

pub(super) fn pause(pause: &Pause) -> Value {
    json!({ "by": pause.by, "at": time(pause.at), "note": pause.note })
}
