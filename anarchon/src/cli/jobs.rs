//! `jobs`: what there is, when it runs next, and how it last went.

use std::collections::BTreeMap;

use futures_util::{StreamExt as _, TryStreamExt as _};
use serde_json::{Value, json};

use super::next::slots;
use super::output::{Failure, Output, style_of};
use super::table::{Cell, Line, Style, Table};
use super::text::{self, status_of, time, whereabouts};
use crate::error::Result;
use crate::job::Job;
use crate::run::{ActiveRun, AttemptRecord, KnownJob, Record};
use crate::scheduler::look::Look;
use crate::slot::JobName;

/// How many slots to come are shown.
const NEXT: usize = 3;
/// How many histories are read at once.
const AT_ONCE: usize = 16;
/// Among so many records there is an attempt, unless all of them are skips.
const FIRST: u32 = 16;

/// One line of the list.
struct Row<'a> {
    name: JobName,
    job: Option<&'a Job>,
    known: Option<KnownJob>,
    unfinished: Vec<ActiveRun>,
    last: Option<AttemptRecord>,
}

pub(super) async fn jobs(look: &Look) -> Result<Output, Failure> {
    let now = look.now_ms();
    let known = look.known(&[]).await?.unwrap_or_default();
    let mut known: BTreeMap<JobName, KnownJob> = known.into_iter().map(|known| (known.job.clone(), known)).collect();
    let mut unfinished: BTreeMap<JobName, Vec<ActiveRun>> = BTreeMap::new();
    for run in look.unfinished(&[]).await? {
        unfinished.entry(run.run.job.clone()).or_default().push(run);
    }
    let mut names: Vec<JobName> = look.jobs.iter().map(|job| job.name.clone()).chain(known.keys().cloned()).collect();
    names.sort_unstable();
    names.dedup();
    let lasts = futures_util::stream::iter(names.iter().map(|name| last_run(look, name))).buffered(AT_ONCE);
    let lasts: Vec<Option<AttemptRecord>> = lasts.try_collect().await?;
    let rows = names.into_iter().zip(lasts).map(|(name, last)| Row {
        job: look.job(name.as_str()),
        known: known.remove(&name),
        unfinished: unfinished.remove(&name).unwrap_or_default(),
        last,
        name,
    });
    let rows: Vec<Row<'_>> = rows.collect();
    let json = json!({
        "backend": look.store.name(),
        "now": time(now),
        "jobs": rows.iter().map(|row| row.json(now)).collect::<Vec<_>>(),
    });
    let mut table = Table::new(&["JOB", "SCHEDULE", "ZONE", "NEXT", "LAST RUN", "STATUS", "RUNNING ON"]);
    rows.iter().for_each(|row| table.row(row.cells(now)));
    let lines = if rows.is_empty() { Line::text("there are no jobs") } else { Line::Table(table) };
    Ok(Output::new(json, vec![lines]))
}

async fn last_run(look: &Look, job: &JobName) -> Result<Option<AttemptRecord>> {
    let mut limit = FIRST;
    loop {
        let records = look.history(job, limit).await?;
        let all = records.len() < usize::try_from(limit).unwrap_or(usize::MAX);
        let attempt = records.into_iter().find_map(|record| match record {
            Record::Attempt(attempt) => Some(attempt),
            Record::Skipped(_) => None,
        });
        if attempt.is_some() || all {
            return Ok(attempt);
        }
        limit = limit.saturating_mul(16);
    }
}

impl Row<'_> {
    fn schedule(&self) -> String {
        match (self.job, &self.known) {
            (Some(job), _) => job.schedule.in_words(),
            (None, Some(known)) => {
                let identities: Vec<&str> = known.schedules.iter().map(|known| known.identity.as_str()).collect();
                format!("not of this program: {}", identities.join("; "))
            }
            (None, None) => String::new(),
        }
    }

    fn zone(&self) -> Option<&str> {
        self.job.and_then(|job| job.schedule.zone_name())
    }

    fn next(&self, now: i64) -> Vec<i64> {
        self.job.map(|job| slots(job, now, NEXT)).unwrap_or_default()
    }

    fn json(&self, now: i64) -> Value {
        let pause = self.known.as_ref().and_then(|known| known.pause.as_ref());
        json!({
            "name": self.name.as_str(),
            "schedule": self.schedule(),
            "zone": self.zone(),
            "of_this_program": self.job.is_some(),
            "next": self.next(now).into_iter().map(time).collect::<Vec<_>>(),
            "last_run": self.last.as_ref().map(super::json::attempt),
            "unfinished": self.unfinished.iter().map(super::json::active).collect::<Vec<_>>(),
            "paused": pause.map(super::json::pause),
        })
    }

    fn cells(&self, now: i64) -> Vec<Cell> {
        let paused = self.known.as_ref().is_some_and(|known| known.pause.is_some());
        let status = self.last.as_ref().map_or("", status_of);
        let status = match (paused, status) {
            (false, status) => Cell::styled(status, style_of(status)),
            (true, "") => Cell::styled("paused", Style::Notable),
            (true, status) => Cell::styled(format!("paused; {status}"), Style::Notable),
        };
        let running: Vec<String> = self.unfinished.iter().map(whereabouts).collect();
        vec![
            self.name.as_str().into(),
            self.schedule().into(),
            self.zone().unwrap_or("").into(),
            text::slots(&self.next(now)).into(),
            self.last.as_ref().map(|last| last.run.slot.to_string()).unwrap_or_default().into(),
            status,
            running.join("; ").into(),
        ]
    }
}
