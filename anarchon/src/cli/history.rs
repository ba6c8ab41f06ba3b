//! `history`: the latest attempts and skipped slots of a job.

use serde_json::json;

use super::output::{Failure, Output, style_of};
use super::table::{Cell, Line, Table};
use super::text::{status_of, time, took};
use super::{json, text};
use crate::run::{AttemptRecord, Record, SkipRecord};
use crate::scheduler::look::Look;

pub(super) async fn history(look: &Look, name: &str, count: u32) -> Result<Output, Failure> {
    let subject = look.subject(name).await?;
    let records = look.history(&subject.name, count).await?;
    let json = json!({ "job": name, "records": records.iter().map(json::record).collect::<Vec<_>>() });
    let mut lines = Vec::new();
    if let Some(pause) = subject.known.as_ref().and_then(|known| known.pause.as_ref()) {
        lines.push(Line::text(format!("{name} is {}", text::paused(pause))));
    }
    if records.is_empty() {
        lines.push(Line::text(format!("{name} has not run, as far as the store remembers")));
    } else {
        let mut table = Table::new(&["SLOT", "ATTEMPT", "REASON", "STATUS", "INSTANCE", "STARTED", "TOOK", "NOTE"]);
        for record in &records {
            table.row(match record {
                Record::Attempt(attempt) => of_attempt(attempt),
                Record::Skipped(skip) => of_skip(skip),
            });
        }
        lines.push(Line::Table(table));
    }
    Ok(Output::new(json, lines))
}

fn of_attempt(attempt: &AttemptRecord) -> Vec<Cell> {
    let status = status_of(attempt);
    vec![
        attempt.run.slot.to_string().into(),
        attempt.attempt.to_string().into(),
        attempt.reason.as_str().into(),
        Cell::styled(status, style_of(status)),
        attempt.instance.as_str().into(),
        time(attempt.claimed_at).into(),
        took(attempt).into(),
        remark(attempt).into(),
    ]
}

fn of_skip(skip: &SkipRecord) -> Vec<Cell> {
    let note = match skip.count {
        0 | 1 => String::new(),
        count => format!("{count} slots from {} on", skip.first),
    };
    let status = Cell::styled("skipped", style_of("skipped"));
    vec![
        skip.last.to_string().into(),
        "".into(),
        skip.reason.as_str().into(),
        status,
        "".into(),
        "".into(),
        "".into(),
        note.into(),
    ]
}

/// The error and the note of an attempt.
pub(super) fn remark(attempt: &AttemptRecord) -> String {
    let parts: Vec<&str> = [&attempt.note, &attempt.error].into_iter().filter_map(|text| text.as_deref()).collect();
    parts.join(": ")
}
