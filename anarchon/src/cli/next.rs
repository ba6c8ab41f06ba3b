//! `next`: the next slots of a job.

use serde_json::json;

use super::output::{Failure, Output};
use super::table::{Line, Table};
use super::text::{between, time};
use crate::job::Job;
use crate::scheduler::look::Look;

/// The next slots after `after`, in ms.
pub(super) fn slots(job: &Job, after: i64, count: usize) -> Vec<i64> {
    std::iter::successors(job.schedule.next(after), |slot| job.schedule.next(*slot)).take(count).collect()
}

pub(super) fn next(look: &Look, name: &str, count: u32) -> Result<Output, Failure> {
    // Other programs' schedules are not for this one to compute.
    let job = look.job(name).ok_or_else(|| look.unknown(name))?;
    let now = look.now_ms();
    let slots = slots(job, now, usize::try_from(count).unwrap_or(usize::MAX));
    let zone = job.schedule.zone_name();
    let json = json!({
        "job": name,
        "schedule": job.schedule.in_words(),
        "zone": zone,
        "now": time(now),
        "slots": slots.iter().map(|slot| json!({ "slot": time(*slot), "slot_ms": slot })).collect::<Vec<_>>(),
    });
    let zone = zone.map(|zone| format!(" {zone}")).unwrap_or_default();
    let mut lines = vec![Line::text(format!("{name}: {}{zone}", job.schedule.in_words()))];
    if slots.is_empty() {
        lines.push(Line::text("no slot is left"));
    } else {
        let mut table = Table::new(&["SLOT", "IN"]);
        slots.iter().for_each(|slot| table.row(vec![time(*slot).into(), between(now, *slot).into()]));
        lines.push(Line::Table(table));
    }
    Ok(Output::new(json, lines))
}
