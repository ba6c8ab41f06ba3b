//! Answers: the rows that come back, as values of the contract. Nothing is decided here; a dialect that replaces a
//! verb's statements returns these columns.
//!
//! | verb | columns |
//! |---|---|
//! | claim, manual claim | job, what was decided, the clock; the run's status, `until_ms`, `max_attempts`, latest attempt, its fence and reason, slot; the status of an ended attempt with the claim's token; slot, id and `until_ms` of a run in the way (one row for each of these, or one row) |
//! | claims, as one text | the number of the claim in the order of the jobs, in the place of the job; the others as above, with `\x1f` between them, `\x1e` between rows and nothing for NULL |
//! | a claim that is to be made again apart from the others | its number, `new`, the clock |
//! | claims that were started, as the first row of such an answer | their fences in the order of the jobs (of a session, of the claims), between commas, with nothing for each of the others; `started`, the clock |
//! | heartbeat | the number of the request, the clock, 1 if it was renewed, 2 if the row is locked |
//! | finish, release | the number of the request, the clock, the run's status and `until_ms`, the status of the ended attempt with that token |
//! | finish within a transaction | the number of the request, the clock, 1 if it was marked, the status of the ended attempt with that token |
//! | active | the clock; job, slot, id, status, number, `until_ms` and the instance of the latest attempt (NULLs if there is no run) |
//! | known | job, ident, touched, trim mark; pause: when, who, note; floor, fingerprint, instance |
//! | register | job, ident, touched, floor, fingerprint, instance, and the last three as they were before |

use std::collections::HashMap;

use super::client::{Row, SqlError};
use crate::clock::from_ms;
use crate::error::BackendErrorKind;
use crate::lease;
use crate::run::{
    ActiveRun, AttemptStatus, BeatOutcome, ClaimOutcome, Finish, FinishOutcome, KnownJob, KnownSchedule, Lateness,
    ManualOutcome, Pause, Reason, Registered, Registrant, Registration, Release, ReleaseOutcome, RunClaim, RunKey,
    Status, Timed,
};
use crate::slot::{InstanceId, JobName, Slot, Token};

type Read<T> = Result<T, SqlError>;

const DAY_MS: i64 = 86_400_000;

fn misread(what: &str, found: &str) -> SqlError {
    let found: String = found.chars().take(64).collect();
    SqlError::new(
        BackendErrorKind::Config,
        format!("the tables hold {found:?}, which is no {what} that this release knows"),
    )
}

fn status(row: &Row, column: usize) -> Read<Status> {
    let word = row.text(column)?;
    Status::parse(word).ok_or_else(|| misread("status of a run", word))
}

fn attempt_status(row: &Row, column: usize) -> Read<Option<AttemptStatus>> {
    row.opt_text(column)?
        .map(|word| AttemptStatus::parse(word).ok_or_else(|| misread("status of an attempt", word)))
        .transpose()
}

pub(super) fn reason(row: &Row, column: usize) -> Read<Reason> {
    let word = row.text(column)?;
    Reason::parse(word).ok_or_else(|| misread("reason of an attempt", word))
}

pub(super) fn small(row: &Row, column: usize) -> Read<u32> {
    let value = row.int(column)?;
    u32::try_from(value).map_err(|_| misread("small number", &value.to_string()))
}

pub(super) fn fence(row: &Row, column: usize) -> Read<Option<u64>> {
    Ok(row.opt_int(column)?.and_then(|fence| u64::try_from(fence).ok()))
}

/// A run's key from its slot and id.
pub(super) fn key(job: JobName, slot: i64, id: &str) -> Read<RunKey> {
    let slot = Slot::from_ms(slot);
    if id.is_empty() {
        return Ok(RunKey::scheduled(job, slot));
    }
    let token = Token::parse(id).ok_or_else(|| misread("id of a run", id))?;
    Ok(RunKey::manual(job, slot, token))
}

/// The `id` of a run.
pub(in crate::backend) fn id_of(run: &RunKey) -> String {
    run.manual.map(|token| token.to_string()).unwrap_or_default()
}

pub(super) fn missing() -> SqlError {
    SqlError::new(BackendErrorKind::Unknown, "the answer does not speak of the request")
}

pub(super) fn newer() -> SqlError {
    SqlError::new(
        BackendErrorKind::Config,
        format!(
            "the tables were written by a newer release of anarchon (this one reads their format up to {}); \
             upgrade this program",
            super::schema::NEWEST
        ),
    )
}

/// The rows of each job, in the order they came.
pub(super) fn by_job(rows: &[Row]) -> Read<HashMap<&str, Vec<&Row>>> {
    let mut jobs: HashMap<&str, Vec<&Row>> = HashMap::with_capacity(rows.len());
    for row in rows {
        jobs.entry(row.text(0)?).or_default().push(row);
    }
    Ok(jobs)
}

/// The places of claims in the order of their jobs.
pub(super) fn in_order_of_jobs(claims: &[RunClaim]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..claims.len()).collect();
    places.sort_by_key(|place| claims.get(*place).map(|claim| claim.job.as_str()));
    places
}

/// The answers to claims; see [`claim`] for those that are `None`. Answers have numbers, which count these places, or the
/// names of the jobs.
pub(super) fn claims(
    rows: &[Row],
    claims: &[RunClaim],
    numbered: Option<Vec<usize>>,
) -> Read<Vec<Option<Timed<ClaimOutcome>>>> {
    let mut answers = vec![None; claims.len()];
    let (mut rows, mut of_claims) = (rows, vec![Vec::new(); claims.len()]);
    if let Some(places) = numbered {
        if let Some((first, rest)) = rows.split_first()
            && first.text(1)? == "started"
        {
            started(first, claims, &places, &mut answers)?;
            rows = rest;
        }
        for row in rows {
            let place = usize::try_from(row.int(0)?).ok().and_then(|number| places.get(number)).ok_or_else(missing)?;
            of_claims.get_mut(*place).ok_or_else(missing)?.push(row);
        }
    } else {
        let mut jobs = by_job(rows)?;
        for (rows, claim) in of_claims.iter_mut().zip(claims) {
            *rows = jobs.remove(claim.job.as_str()).unwrap_or_default();
        }
    }
    for ((answer, claim), rows) in
        answers.iter_mut().zip(claims).zip(of_claims).filter(|((answer, _), _)| answer.is_none())
    {
        *answer = self::claim(claim, &rows)?;
    }
    Ok(answers)
}

/// Answers those that were started, which one row has: what else is to be said of them they have said themselves.
fn started(row: &Row, claims: &[RunClaim], places: &[usize], answers: &mut [Option<Timed<ClaimOutcome>>]) -> Read<()> {
    let (fences, now) = (row.text(0)?, row.int(2)?);
    let mut places = places.iter();
    for fence in fences.split(',') {
        let place = *places.next().ok_or_else(missing)?;
        let (Some(claim), Some(answer)) = (claims.get(place), answers.get_mut(place)) else { return Err(missing()) };
        if fence.is_empty() {
            continue;
        }
        let reason = claim.kind.first_reason();
        let fence = fence.parse().map_err(|_| misread("fence", fence))?;
        let outcome = ClaimOutcome::Won { attempt: 1, fence: Some(fence), reason, max_attempts: claim.max_attempts };
        *answer = Some(Timed::at(outcome, now));
    }
    if places.next().is_some() { Err(missing()) } else { Ok(()) }
}

/// The answer to a claim. There is none when a run was in the way and ended before it could be named, which takes a
/// transaction beside ours, or when the claim has to be made apart from the others: then it is made again.
fn claim(claim: &RunClaim, rows: &[&Row]) -> Read<Option<Timed<ClaimOutcome>>> {
    let row = *rows.first().ok_or_else(missing)?;
    let now = row.int(2)?;
    let job = &claim.job;
    let left = |until: i64| from_ms(until.saturating_sub(now));
    let outcome = match row.text(1)? {
        "newer" => return Err(newer()),
        "new" => return Ok(None),
        "stale" => ClaimOutcome::Late(Lateness::Stale),
        "early" => ClaimOutcome::Early { wait: left(claim.slot.ms()) },
        "again" | "take" | "start" => ClaimOutcome::Won {
            attempt: small(row, 6)?,
            fence: fence(row, 7)?,
            reason: reason(row, 8)?,
            max_attempts: small(row, 5)?,
        },
        "ended" => match attempt_status(row, 10)? {
            Some(ended) => ClaimOutcome::Done { status: lease::attempt_as_run(ended) },
            None => return Err(missing()),
        },
        "done" => ClaimOutcome::Done { status: status(row, 3)? },
        "running" => ClaimOutcome::Running { left: left(row.int(4)?) },
        // The run's row is held by somebody's transaction: it counts as alive.
        "locked" => ClaimOutcome::Running { left: std::time::Duration::ZERO },
        "skipped" => ClaimOutcome::Done { status: Status::Skipped },
        "gone" => ClaimOutcome::Gone,
        "trimmed" => ClaimOutcome::Late(Lateness::Trimmed),
        "floor" => ClaimOutcome::Late(Lateness::Floor),
        "old" => ClaimOutcome::Late(Lateness::TooOld),
        "paused" => ClaimOutcome::Paused { recorded: false },
        "skip paused" => ClaimOutcome::Paused { recorded: true },
        decided @ ("overlap" | "skip overlap") => {
            let Some((blocker, until)) = blocker(job, rows, now)? else { return Ok(None) };
            ClaimOutcome::Overlap { blocker, left: left(until), recorded: decided == "skip overlap" }
        }
        other => return Err(misread("decision", other)),
    };
    Ok(Some(Timed::at(outcome, now)))
}

/// The run in the way: a live one before one whose lease is over, then the oldest.
fn blocker(job: &JobName, rows: &[&Row], now: i64) -> Read<Option<(RunKey, i64)>> {
    let mut first: Option<(bool, RunKey, i64)> = None;
    for row in rows {
        let Some(slot) = row.opt_int(11)? else { continue };
        let until = row.int(13)?;
        let candidate = (until <= now, key(job.clone(), slot, row.opt_text(12)?.unwrap_or_default())?, until);
        if first.as_ref().is_none_or(|best| (candidate.0, &candidate.1) < (best.0, &best.1)) {
            first = Some(candidate);
        }
    }
    Ok(first.map(|(_, key, until)| (key, until)))
}

/// The answer to a manual claim.
pub(super) fn manual(rows: &[Row]) -> Read<Timed<ManualOutcome>> {
    let row = rows.first().ok_or_else(missing)?;
    let outcome = match row.text(1)? {
        "newer" => return Err(newer()),
        "manual" | "again manual" => ManualOutcome::Won { slot: Slot::from_ms(row.int(9)?), fence: fence(row, 7)? },
        "manual overlap" => ManualOutcome::Overlap,
        "stale" | "ended manual" => ManualOutcome::Late,
        other => return Err(misread("decision", other)),
    };
    Ok(Timed::at(outcome, row.int(2)?))
}

/// The row that answers each request, by its number.
fn numbered(rows: &[Row], requests: usize) -> Read<Vec<&Row>> {
    let mut answers: Vec<Option<&Row>> = vec![None; requests];
    for row in rows {
        let number = usize::try_from(row.int(0)?).map_err(|_| missing())?;
        *answers.get_mut(number).ok_or_else(missing)? = Some(row);
    }
    answers.into_iter().map(|row| row.ok_or_else(missing)).collect()
}

pub(super) fn beats(rows: &[Row], requests: usize) -> Read<Vec<Timed<BeatOutcome>>> {
    let outcome = |row: &Row| {
        let outcome = match row.opt_int(2)? {
            Some(1) => BeatOutcome::Alive,
            Some(2) => BeatOutcome::Locked,
            _ => BeatOutcome::Lost,
        };
        Ok(Timed::at(outcome, row.int(1)?))
    };
    numbered(rows, requests)?.into_iter().map(outcome).collect()
}

pub(super) fn finishes(rows: &[Row], finishes: &[Finish]) -> Read<Vec<Timed<FinishOutcome>>> {
    let outcome = |(row, finish): (&Row, &Finish)| {
        let now = row.int(1)?;
        let ended = attempt_status(row, 4)?;
        // Written by this packet or by an earlier copy of it: either way the attempt has ended as it says.
        let done_before = finish.unless_done && ended == Some(AttemptStatus::Done);
        if !done_before && ended != Some(finish.ending.status()) {
            return Ok(Timed::at(FinishOutcome::Lost, now));
        }
        let (run, until) = (status(row, 2)?, row.int(3)?);
        let retry_in = (run == Status::Waiting).then(|| from_ms(until.saturating_sub(now)));
        Ok(Timed::at(FinishOutcome::Recorded { run, retry_in }, now))
    };
    numbered(rows, finishes.len())?.into_iter().zip(finishes).map(outcome).collect()
}

pub(super) fn releases(rows: &[Row], releases: &[Release]) -> Read<Vec<Timed<ReleaseOutcome>>> {
    let outcome = |(row, release): (&Row, &Release)| {
        let wanted = if release.returned { AttemptStatus::Returned } else { AttemptStatus::HandedOver };
        let released = attempt_status(row, 4)? == Some(wanted);
        let outcome = if released { ReleaseOutcome::Released } else { ReleaseOutcome::Lost };
        Ok(Timed::at(outcome, row.int(1)?))
    };
    numbered(rows, releases.len())?.into_iter().zip(releases).map(outcome).collect()
}

/// The unfinished runs, and whether one of them is a manual run whose lease is over, to be closed first.
pub(super) fn active(rows: &[Row]) -> Read<(Timed<Vec<ActiveRun>>, bool)> {
    let now = rows.first().ok_or_else(missing)?.int(0)?;
    let mut runs = Vec::with_capacity(rows.len());
    let mut over = false;
    for row in rows {
        let Some(job) = row.opt_text(1)? else { continue };
        // A name that no release of ours can have written is nobody's to watch.
        let Ok(job) = JobName::new(job) else { continue };
        let run = key(job, row.int(2)?, row.text(3)?)?;
        let until = row.int(6)?;
        over |= run.manual.is_some() && until <= now;
        let instance = row.opt_text(7)?.and_then(|id| InstanceId::new(id).ok());
        runs.push(ActiveRun::new(run, status(row, 4)?, small(row, 5)?, instance, from_ms(until.saturating_sub(now))));
    }
    runs.sort_by(|a, b| a.run.cmp(&b.run));
    Ok((Timed::at(runs, now), over))
}

/// What is known of jobs, whose rows are in the order of their names.
pub(super) fn known(rows: &[Row]) -> Read<Vec<KnownJob>> {
    let mut jobs: Vec<KnownJob> = Vec::new();
    for row in rows {
        // A name that no release of ours can have written is no job.
        let Ok(name) = JobName::new(row.text(0)?) else { continue };
        if jobs.last().is_none_or(|last| last.job != name) {
            jobs.push(KnownJob::new(name));
        }
        let Some(job) = jobs.last_mut() else { continue };
        match row.text(1)?.strip_prefix('=') {
            None => {
                job.trim_mark = row.opt_int(3)?.map(Slot::from_ms);
                if let Some(at) = row.opt_int(4)? {
                    let (by, note) = (row.opt_text(5)?.unwrap_or_default(), row.opt_text(6)?.unwrap_or_default());
                    job.pause = Some(Pause { at, ..Pause::new(by, note) });
                }
            }
            Some(identity) => {
                let mut schedule = KnownSchedule::new(identity, row.int(7)?);
                if let (Some(fingerprint), Some(instance)) = (row.opt_text(8)?, row.opt_text(9)?) {
                    schedule.registered = Some(Registrant::new(instance, fingerprint, row.int(2)?));
                }
                job.schedules.push(schedule);
            }
        }
    }
    Ok(jobs)
}

/// The answers to registrations, each of another job, and the clock.
pub(super) fn registered(rows: &[Row], registrations: &[Registration]) -> Read<(Vec<Registered>, i64)> {
    let jobs = by_job(rows)?;
    let mut now = i64::MIN;
    let mut answers = Vec::with_capacity(registrations.len());
    for registration in registrations {
        let rows = jobs.get(registration.job.as_str()).ok_or_else(missing)?;
        let mut answer = None;
        let mut others: Vec<(&str, String, String)> = Vec::new();
        for row in rows {
            let ident = row.text(1)?;
            if ident.is_empty() {
                now = now.max(row.int(2)?);
                continue;
            }
            let own = ident == super::ident(&registration.identity);
            if own {
                answer = Some(Registered::new(row.int(3)?));
            }
            // Of our own identity, what counts is what this registration replaced.
            let (fingerprint, instance, touched) = if own { (6, 7, 8) } else { (4, 5, 2) };
            let (Some(fingerprint), Some(instance)) = (row.opt_text(fingerprint)?, row.opt_text(instance)?) else {
                continue;
            };
            let lock = rows.iter().find(|r| r.text(1).is_ok_and(str::is_empty)).ok_or_else(missing)?;
            let recent = lock.int(2)?.saturating_sub(row.opt_int(touched)?.unwrap_or(i64::MIN)) < DAY_MS;
            if recent && fingerprint != &*registration.fingerprint && instance != registration.instance.as_str() {
                others.push((ident, instance.to_owned(), fingerprint.to_owned()));
            }
        }
        others.sort();
        let mut answer = answer.ok_or_else(missing)?;
        answer.others = others.into_iter().map(|(_, instance, fingerprint)| (instance, fingerprint)).collect();
        answers.push(answer);
    }
    Ok((answers, now))
}
