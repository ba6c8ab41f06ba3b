//! `check`: whether the store answers, its clock agrees, and all instances mean the same by a job.

use std::time::Duration;

use serde_json::{Value, json};

use super::output::{Failure, Output};
use super::table::{Cell, Line, Style};
use super::text::{duration, time};
use crate::clock::to_ms;
use crate::run::KnownJob;
use crate::scheduler::look::Look;
use crate::slot::JobName;

/// A local clock that differs by more is worth a look.
const SKEW_MS: i64 = 1000;
/// Instances that registered longer ago are those of a version before.
const DAY_MS: i64 = 86_400_000;
const TROUBLE: u8 = 3;

/// An instance that computes other slots for a job.
struct Disagreement {
    job: JobName,
    ours: String,
    theirs: String,
    instance: String,
    at: i64,
}

pub(super) async fn check(look: &Look) -> Result<Output, Failure> {
    let names: Vec<JobName> = look.jobs.iter().map(|job| job.name.clone()).collect();
    // Naming none would ask about all.
    let known = if names.is_empty() { Some(Vec::new()) } else { look.known(&names).await? };
    let told = known.is_some() || look.info.empty;
    let disagreements = disagreements(look, &known.unwrap_or_default());
    let skew = look.offset.map(|offset| offset.ms).filter(|ms| ms.abs() > SKEW_MS);

    let mut trouble: Vec<String> = Vec::new();
    if let Some(ms) = skew {
        trouble.push(format!("this machine's clock differs from the store's, whose clock counts, by {ms} ms"));
    }
    for d in &disagreements {
        trouble.push(format!(
            "instance {} computes other slots for job {} (registered at {}): here `{}`, there `{}`",
            d.instance,
            d.job,
            time(d.at),
            d.ours,
            d.theirs
        ));
    }
    let json = json!({
        "ok": trouble.is_empty(),
        "backend": look.store.name(),
        "leases": look.store.leases(),
        "server": look.info.server,
        "places": look.info.places,
        "empty": look.info.empty,
        "clock_offset_ms": look.offset.map(|offset| offset.ms),
        "round_trip_ms": look.offset.map(|offset| to_ms(offset.round_trip)),
        "jobs": names.len(),
        "disagreements": disagreements.iter().map(Disagreement::json).collect::<Vec<_>>(),
        "warnings": look.info.warnings,
        "trouble": trouble,
    });
    let strength = if look.store.leases() { "holds leases" } else { "only claims" };
    let mut lines = vec![
        Line::text(format!("backend   {}, which {strength}", look.store.name())),
        Line::text(format!("server    {}", look.info.server)),
        Line::text(format!("clock     {}", clock(look))),
        Line::text(format!("places    {}", places(look))),
        Line::text(format!("jobs      {}", jobs(names.len(), told, look.info.empty))),
    ];
    let styled = |text: String, style| Line::Text(Cell::styled(text, style));
    lines.extend(look.info.warnings.iter().map(|warning| styled(format!("warning   {warning}"), Style::Notable)));
    lines.extend(trouble.iter().map(|trouble| styled(format!("trouble   {trouble}"), Style::Bad)));
    if trouble.is_empty() {
        lines.push(styled("all is well".to_owned(), Style::Good));
    }
    Ok(Output { code: if trouble.is_empty() { 0 } else { TROUBLE }, ..Output::new(json, lines) })
}

fn clock(look: &Look) -> String {
    match look.offset {
        Some(offset) => {
            let side = if offset.ms < 0 { "behind" } else { "ahead of" };
            let within = duration(offset.round_trip.max(Duration::from_millis(1)));
            format!("{} ms {side} this machine's, by an answer within {within}", offset.ms.unsigned_abs())
        }
        None if look.info.empty => "not asked for".to_owned(),
        None => "none: this machine's counts".to_owned(),
    }
}

fn places(look: &Look) -> String {
    match (look.info.empty, look.info.places.as_slice()) {
        (true, _) => "none yet: the first instance that starts makes them".to_owned(),
        (false, []) => "as the backend's options say".to_owned(),
        (false, places) => places.join(", "),
    }
}

fn jobs(count: usize, told: bool, empty: bool) -> String {
    match (told, empty) {
        (false, _) => format!("{count}; this store does not tell what other instances have registered"),
        (true, true) => format!("{count}, none of them registered yet"),
        (true, false) => count.to_string(),
    }
}

fn disagreements(look: &Look, known: &[KnownJob]) -> Vec<Disagreement> {
    let now = look.now_ms();
    let mut found = Vec::new();
    for known in known {
        let Some(job) = look.job(known.job.as_str()) else { continue };
        for by in known.schedules.iter().filter_map(|schedule| schedule.registered.as_ref()) {
            if *by.fingerprint != *job.fingerprint && now.saturating_sub(by.at) < DAY_MS {
                found.push(Disagreement {
                    job: job.name.clone(),
                    ours: job.fingerprint.to_string(),
                    theirs: by.fingerprint.clone(),
                    instance: by.instance.clone(),
                    at: by.at,
                });
            }
        }
    }
    found
}

impl Disagreement {
    fn json(&self) -> Value {
        json!({
            "job": self.job.as_str(),
            "ours": self.ours,
            "theirs": self.theirs,
            "instance": self.instance,
            "registered_at": time(self.at),
        })
    }
}
