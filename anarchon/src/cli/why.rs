//! `why`: what became of one slot, by the records, the floor, the trim mark and the schedule.

use serde_json::json;

use super::history::remark;
use super::output::{Failure, Output, style_of};
use super::reader::Subject;
use super::table::{Cell, Line};
use super::text::{self, between, duration, status_of, time};
use crate::clock::{from_ms, to_ms};
use crate::error::Result;
use crate::job::Job;
use crate::run::{AttemptRecord, AttemptStatus, Reason, Record, SkipReason, SkipRecord, Status};
use crate::scheduler::look::Look;
use crate::slot::{JobName, Slot};

/// Records that are read at first; more, when the slot may lie behind them.
const FIRST: u32 = 256;

/// What is found, in a word and in a sentence.
struct Verdict {
    word: &'static str,
    sentence: String,
}

impl Verdict {
    fn new(word: &'static str, sentence: impl Into<String>) -> Self {
        Self { word, sentence: sentence.into() }
    }
}

/// What the records tell of a slot.
#[derive(Default)]
struct Found {
    /// The first one first.
    attempts: Vec<AttemptRecord>,
    skip: Option<SkipRecord>,
    /// For a slot that was skipped for it: the attempt that ran then.
    blocker: Option<AttemptRecord>,
}

pub(super) async fn why(look: &Look, name: &str, slot: Slot) -> Result<Output, Failure> {
    let subject = look.subject(name).await?;
    let job = look.job(name);
    let found = find(records(look, &subject.name, slot).await?, slot);
    let mark = subject.known.as_ref().and_then(|known| known.trim_mark);
    let floor = floor(&subject, job);
    let verdict = match recorded(&found) {
        Some(verdict) => verdict,
        None => unrecorded(look, &subject, job, slot),
    };
    let pause = subject.known.as_ref().and_then(|known| known.pause.as_ref());
    let json = json!({
        "job": name,
        "slot": slot.to_string(),
        "slot_ms": slot.ms(),
        "now": time(look.now_ms()),
        "verdict": verdict.word,
        "why": verdict.sentence,
        "attempts": found.attempts.iter().map(super::json::attempt).collect::<Vec<_>>(),
        "skipped": found.skip.as_ref().map(super::json::skip),
        "blocker": found.blocker.as_ref().map(super::json::attempt),
        "floor": floor.map(time),
        "trim_mark": mark.map(|mark| mark.to_string()),
        "paused": pause.map(super::json::pause),
    });
    let head = format!("{name} at {slot}: {}", verdict.sentence);
    let mut lines = vec![Line::Text(Cell::styled(head, style_of(verdict.word)))];
    lines.extend(found.attempts.iter().map(|attempt| Line::text(format!("  {}", story(attempt)))));
    if let Some(blocker) = &found.blocker {
        lines.push(Line::text(format!("  then ran the slot of {}: {}", blocker.run.slot, story(blocker))));
    }
    if let Some(skip) = found.skip.as_ref().filter(|skip| skip.count > 1) {
        let SkipRecord { count, first, last, .. } = skip;
        lines.push(Line::text(format!("  so were {count} slots in a row, from {first} to {last}")));
    }
    if let (Some(pause), Some(SkipReason::Paused)) = (pause, found.skip.as_ref().map(|skip| skip.reason)) {
        lines.push(Line::text(format!("  the job is {}", text::paused(pause))));
    }
    Ok(Output::new(json, lines))
}

/// The job's records, from the newest on as far back as the slot.
async fn records(look: &Look, job: &JobName, slot: Slot) -> Result<Vec<Record>> {
    let mut limit = FIRST;
    loop {
        let records = look.history(job, limit).await?;
        let all = records.len() < usize::try_from(limit).unwrap_or(usize::MAX) || limit == u32::MAX;
        // A skip record stands at its last slot, so all that touch the slot are before an older record.
        if all || records.last().is_some_and(|last| last.slot() < slot) {
            return Ok(records);
        }
        limit = limit.saturating_mul(16);
    }
}

fn find(records: Vec<Record>, slot: Slot) -> Found {
    let mut found = Found::default();
    let mut others = Vec::new();
    for record in records {
        match record {
            Record::Attempt(attempt) if attempt.run.slot == slot && attempt.run.manual.is_none() => {
                found.attempts.push(attempt);
            }
            Record::Attempt(attempt) => others.push(attempt),
            Record::Skipped(skip) if skip.first <= slot && slot <= skip.last => found.skip = Some(skip),
            Record::Skipped(_) => {}
        }
    }
    found.attempts.sort_by_key(|attempt| (attempt.claimed_at, attempt.attempt));
    if !found.attempts.is_empty() {
        // A record of several slots may lie around one that was run.
        found.skip = None;
    }
    if found.skip.as_ref().is_some_and(|skip| skip.reason == SkipReason::Overlap) {
        found.blocker = others.into_iter().find(|attempt| ran_at(attempt, slot.ms()));
    }
    found
}

/// Whether an attempt was going on at that time. An exclusive manual run is in the way as well; history does not tell which
/// of the manual ones were.
fn ran_at(attempt: &AttemptRecord, at: i64) -> bool {
    let ended = attempt.ended_at.unwrap_or(i64::MAX);
    attempt.claimed_at <= at && at <= ended
}

/// What is on record about the slot.
fn recorded(found: &Found) -> Option<Verdict> {
    if let Some(skip) = &found.skip {
        return Some(Verdict::new(
            "skipped",
            match skip.reason {
                SkipReason::Overlap => "skipped, since another run of the job was live",
                SkipReason::Paused => "skipped, since the job was paused",
            },
        ));
    }
    let last = found.attempts.last()?;
    let by = &last.instance;
    let verdict = match (last.run_status, last.status) {
        (Some(Status::Done), _) | (None, Some(AttemptStatus::Done)) => Verdict::new("done", format!("done by {by}")),
        (Some(Status::Failed), _) | (None, Some(AttemptStatus::Failed)) => {
            Verdict::new("failed", format!("failed on {by}, and is not started again"))
        }
        (Some(Status::TimedOut), _) | (None, Some(AttemptStatus::TimedOut)) => {
            Verdict::new("timed_out", format!("ran out of time on {by}, and is not started again"))
        }
        (Some(Status::Dead), _) => {
            Verdict::new("dead", format!("dead: {by} was the last to run it, and nobody took it over in time"))
        }
        (Some(Status::Waiting), _) => Verdict::new("waiting", "failed so far, and waits to be started again"),
        (Some(Status::Running), Some(AttemptStatus::Running)) => Verdict::new("running", format!("running on {by}")),
        (Some(Status::Running), _) => Verdict::new("running", format!("given up by {by}, for another to take it over")),
        _ => Verdict::new("unknown", format!("won by {by}; how it ended, the store does not say")),
    };
    Some(verdict)
}

/// Why nothing is on record about the slot, in the order in which a claim would be judged.
fn unrecorded(look: &Look, subject: &Subject, job: Option<&Job>, slot: Slot) -> Verdict {
    let (now, at) = (look.now_ms(), slot.ms());
    if let Some(job) = job.filter(|job| job.schedule.latest(at) != Some(at)) {
        let neighbours = [job.schedule.latest(at), job.schedule.next(at)];
        let neighbours: Vec<String> = neighbours.into_iter().flatten().map(time).collect();
        let schedule = job.schedule.in_words();
        let sentence = format!("no slot of this schedule ({schedule}); those next to it: {}", neighbours.join(" and "));
        return Verdict::new("no_slot", sentence);
    }
    if at > now {
        return Verdict::new("not_due", format!("not yet due; it is in {}", between(now, at)));
    }
    let known = subject.known.as_ref();
    if let (Some(job), true) = (job, subject.told) {
        let schedules = known.map(|known| known.schedules.as_slice()).unwrap_or_default();
        if !schedules.iter().any(|schedule| *schedule.identity == *job.identity) {
            let sentence = "never owed: no instance that has the job with this schedule has ever started on this store";
            return Verdict::new("before_floor", sentence);
        }
    }
    if let Some(floor) = floor(subject, job).filter(|floor| at <= *floor) {
        let sentence = format!("never owed: the job was first registered with this schedule later, at {}", time(floor));
        return Verdict::new("before_floor", sentence);
    }
    if let Some(mark) = known.and_then(|known| known.trim_mark).filter(|mark| slot <= *mark) {
        let sentence = format!("forgotten: history up to {mark} has been trimmed, and with it what became of the slot");
        return Verdict::new("trimmed", sentence);
    }
    match job {
        Some(job) => undecided(look, job, at, now),
        None => Verdict::new("missed", "nobody decided it, as far as the store remembers"),
    }
}

/// A slot that was owed, and of which nothing is known.
fn undecided(look: &Look, job: &Job, at: i64, now: i64) -> Verdict {
    let gap = job.schedule.gap_after(at);
    let age = from_ms(now.saturating_sub(at));
    let in_time = job.max_late.saturating_add(job.jitter(gap));
    if age <= in_time {
        let until = time(at.saturating_add(to_ms(in_time)));
        return Verdict::new("open", format!("not decided yet; an instance may claim it until {until}"));
    }
    let catch_up = job.catch_up(gap).saturating_add(job.jitter(gap));
    if age <= catch_up && job.schedule.latest(now) == Some(at) {
        let until = time(at.saturating_add(to_ms(catch_up)));
        let sentence = format!("missed so far; an instance that starts before {until} makes up for it");
        return Verdict::new("open", sentence);
    }
    let late = duration(job.max_late);
    if look.store.leases() {
        Verdict::new("missed", format!("missed: no instance decided it in time (max_late is {late})"))
    } else {
        let sentence = format!(
            "nothing is known of it: no instance claimed it in time (max_late is {late}), or its record is gone already"
        );
        Verdict::new("missed", sentence)
    }
}

/// The floor of the schedule that the program has; of a job that is not the program's, the earliest one.
fn floor(subject: &Subject, job: Option<&Job>) -> Option<i64> {
    let schedules = subject.known.as_ref()?.schedules.iter();
    match job {
        Some(job) => schedules.filter(|known| *known.identity == *job.identity).map(|known| known.floor).min(),
        None => schedules.map(|known| known.floor).min(),
    }
}

/// One attempt, from its start to its end.
fn story(attempt: &AttemptRecord) -> String {
    let why = match attempt.reason {
        Reason::Scheduled => "scheduled".to_owned(),
        Reason::Takeover => "a takeover, as the runner before it was lost".to_owned(),
        Reason::HandOver => "a hand-over, as the runner before it stopped".to_owned(),
        Reason::CatchUp => "a catch-up, as nobody ran when it was due".to_owned(),
        reason => reason.to_string(),
    };
    let started =
        format!("attempt {}, {why}: won by {} at {}", attempt.attempt, attempt.instance, time(attempt.claimed_at));
    let remark = match remark(attempt) {
        remark if remark.is_empty() => remark,
        remark => format!(" ({remark})"),
    };
    let ended = match (attempt.ended_at, attempt.status) {
        (_, Some(AttemptStatus::Running)) => "still running".to_owned(),
        (Some(ended), Some(AttemptStatus::Lost)) => format!("lost at {}: its lease had run out", time(ended)),
        (Some(ended), _) => {
            format!("{} at {}, after {}", status_of(attempt), time(ended), between(attempt.claimed_at, ended))
        }
        (None, _) => status_of(attempt).to_owned(),
    };
    format!("{started}, {ended}{remark}")
}
