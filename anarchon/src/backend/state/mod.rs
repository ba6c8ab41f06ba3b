//! What is kept of one job by stores that decide in Rust, and the steps on it. A step is given the state as it is and the
//! store's time; that nobody else steps in between is the store's business: a mutex, or a compare-and-set.

#[cfg(feature = "nats")]
mod stored;
mod trim;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "nats")]
pub(super) use self::stored::{Fault, Stored};
use crate::clock::to_ms;
use crate::lease::{self, Decision, Facts, StoredRun};
use crate::option::Overlap;
use crate::run;
use crate::run::{
    ActiveRun, AttemptRecord, AttemptStatus, Beat, BeatOutcome, ClaimOutcome, Finish, FinishOutcome, KnownJob,
    KnownSchedule, Lateness, ManualClaim, ManualOutcome, Pause, Reason, Record, Registered, Registration, Release,
    ReleaseOutcome, RunClaim, RunKey, SkipReason, SkipRecord, Status,
};
use crate::slot::{InstanceId, JobName, Slot, Token};

const DAY_MS: i64 = 86_400_000;

/// What was registered under one schedule identity.
#[derive(Clone, Debug)]
struct Schedule {
    floor: i64,
    /// Who registered it last; nobody when only a claim brought its floor.
    registered: Option<Registrant>,
}

#[derive(Clone, Debug)]
struct Registrant {
    fingerprint: Arc<str>,
    instance: InstanceId,
    at: i64,
}

/// What tells the runs of one job apart.
type RunId = (Slot, Option<Token>);

fn id(key: &RunKey) -> RunId {
    (key.slot, key.manual)
}

/// The runs of one job, sorted by slot. New ones come last, so a vector is quicker and smaller than a tree.
#[derive(Clone, Debug, Default)]
struct Runs {
    all: Vec<StoredRun>,
    /// So many of the first runs are finished, and stay so: who looks for others need not look at them.
    settled: usize,
}

impl Runs {
    fn find(&self, sought: RunId) -> Result<usize, usize> {
        match self.all.last() {
            Some(last) if (last.key.slot, last.key.manual) >= sought => {
                self.all.binary_search_by(|run| (run.key.slot, run.key.manual).cmp(&sought))
            }
            _ => Err(self.all.len()),
        }
    }

    fn get(&self, sought: RunId) -> Option<&StoredRun> {
        self.find(sought).ok().map(|at| &self.all[at])
    }

    fn get_mut(&mut self, sought: RunId) -> Option<&mut StoredRun> {
        self.find(sought).ok().map(|at| &mut self.all[at])
    }

    fn insert(&mut self, run: StoredRun) {
        let at = match self.find(id(&run.key)) {
            Ok(at) => {
                self.all[at] = run;
                at
            }
            Err(at) => {
                self.all.insert(at, run);
                at
            }
        };
        self.settled = self.settled.min(at);
        self.settled += self.all[self.settled..].iter().take_while(|run| !run.unfinished()).count();
    }

    fn remove(&mut self, sought: RunId) {
        if let Ok(at) = self.find(sought) {
            self.all.remove(at);
            self.settled -= usize::from(at < self.settled);
        }
    }

    fn all(&self) -> impl Iterator<Item = &StoredRun> {
        self.all.iter()
    }

    fn unfinished(&self) -> impl Iterator<Item = &StoredRun> {
        self.all[self.settled..].iter().filter(|run| run.unfinished())
    }

    fn unfinished_mut(&mut self) -> impl Iterator<Item = &mut StoredRun> {
        self.all[self.settled..].iter_mut().filter(|run| run.unfinished())
    }
}

/// What history shows of an attempt, without what all attempts of a job have alike.
#[derive(Clone, Debug)]
struct Attempt {
    run: RunId,
    number: u32,
    reason: Reason,
    status: AttemptStatus,
    token: Token,
    fence: u64,
    instance: InstanceId,
    claimed_at: i64,
    ended_at: Option<i64>,
    error: Option<Box<str>>,
    note: Option<&'static str>,
}

impl Attempt {
    fn new(run: RunId, token: Token, instance: &InstanceId, fence: u64, now: i64) -> Self {
        Self {
            run,
            number: 1,
            reason: Reason::Manual,
            status: AttemptStatus::Running,
            token,
            fence,
            instance: instance.clone(),
            claimed_at: now,
            ended_at: None,
            error: None,
            note: None,
        }
    }

    fn record(&self, job: &JobName, run_status: Option<Status>) -> AttemptRecord {
        let run = RunKey { job: job.clone(), slot: self.run.0, manual: self.run.1 };
        AttemptRecord {
            fence: Some(self.fence),
            reason: self.reason,
            status: Some(self.status),
            run_status,
            ended_at: self.ended_at,
            error: self.error.as_deref().map(str::to_owned),
            note: self.note.map(str::to_owned),
            ..AttemptRecord::new(run, self.number, self.token, self.instance.as_str(), self.claimed_at)
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct JobState {
    runs: Runs,
    /// In the order of their claims.
    attempts: Vec<Attempt>,
    /// By their first slot.
    skips: BTreeMap<Slot, SkipRecord>,
    /// Sorted by their identity; hardly ever more than one.
    schedules: Vec<(Arc<str>, Schedule)>,
    pub(super) paused: Option<Box<Pause>>,
    fence: u64,
    trim_mark: Option<i64>,
    touched: i64,
}

impl JobState {
    pub(super) fn new(now: i64) -> Self {
        Self { touched: now, ..Self::default() }
    }

    pub(super) fn register(&mut self, registration: &Registration, now: i64) -> Registered {
        self.touched = now;
        let mut registered = Registered::new(now);
        for (identity, schedule) in &self.schedules {
            if let Some(by) = &schedule.registered {
                let differs = by.fingerprint != registration.fingerprint && by.instance != registration.instance;
                if differs && now.saturating_sub(by.at) < DAY_MS {
                    registered.others.push((by.instance.to_string(), by.fingerprint.to_string()));
                }
            }
            if *identity == registration.identity {
                registered.floor = schedule.floor;
            }
        }
        let (fingerprint, instance) = (registration.fingerprint.clone(), registration.instance.clone());
        let registrant = Registrant { fingerprint, instance, at: now };
        let schedule = Schedule { floor: registered.floor, registered: Some(registrant) };
        *self.schedule(&registration.identity, registered.floor) = schedule;
        registered
    }

    /// What is known of a schedule identity; one that is new gets this floor.
    fn schedule(&mut self, identity: &Arc<str>, floor: i64) -> &mut Schedule {
        let known = self.schedules.iter().position(|(known, _)| known == identity);
        let at = known.unwrap_or_else(|| {
            let at = self.schedules.partition_point(|(known, _)| known < identity);
            self.schedules.reserve_exact(1);
            self.schedules.insert(at, (Arc::clone(identity), Schedule { floor, registered: None }));
            at
        });
        &mut self.schedules[at].1
    }

    /// Whether no instance has had the job registered for so long that it goes, with all that is left of it.
    pub(super) fn forgotten(&self, after: Duration, now: i64) -> bool {
        self.paused.is_none() && now.saturating_sub(self.touched) > to_ms(after)
    }

    pub(super) fn claim(&mut self, claim: &RunClaim, now: i64) -> ClaimOutcome {
        if now > claim.valid_until {
            return ClaimOutcome::Late(Lateness::Stale);
        }
        self.touched = self.touched.max(now);
        let floor = self.schedule(&claim.identity, claim.floor).floor;
        self.close_over(Some(claim.token), now);
        match lease::decide(claim, &self.facts(claim, Some(floor), now), now) {
            Decision::Answer(outcome) => outcome,
            Decision::Again => self.again(claim, now),
            Decision::TakeOver => self.take_over(claim, now),
            Decision::Start => self.start(claim, now),
            Decision::Skip(reason) => self.skip(claim, reason, now),
        }
    }

    fn facts<'a>(&'a self, claim: &RunClaim, floor: Option<i64>, now: i64) -> Facts<'a> {
        let sought = (claim.slot, None);
        let others = || self.runs.unfinished().filter(move |run| id(&run.key) != sought && run.counts);
        let run = self.runs.get(sought);
        Facts {
            run,
            ended: run.and_then(|_| ended_as(&self.attempts, sought, claim.token)),
            skipped: self.skips.range(..=claim.slot).next_back().is_some_and(|(_, s)| s.last >= claim.slot),
            paused: self.paused.is_some(),
            trim_mark: self.trim_mark,
            floor,
            live: others().find(|run| run.live(now)),
            orphaned: others().find(|run| run.key.manual.is_none() && run.status == Status::Running && run.over(now)),
        }
    }

    /// Closes what is expired or used up, but not what `except` still holds: that one is answered `Won` again.
    fn close_over(&mut self, except: Option<Token>, now: i64) {
        let mut lost = Vec::new();
        for run in self.runs.unfinished_mut().filter(|run| run.closes(now)) {
            if run.token.is_some() && run.token == except {
                continue;
            }
            let token = run.token;
            if run.close() {
                lost.extend(token);
            }
        }
        lost.into_iter().for_each(|token| self.end_attempt(token, AttemptStatus::Lost, None, now));
    }

    fn end_attempt(&mut self, token: Token, status: AttemptStatus, error: Option<&str>, now: i64) {
        if let Some(attempt) = self.attempts.iter_mut().rev().find(|a| a.token == token) {
            attempt.status = status;
            attempt.ended_at = Some(now);
            attempt.error = error.map(Into::into);
        }
    }

    fn next_fence(&mut self, now: i64) -> u64 {
        self.fence = lease::next_fence(self.fence, now);
        self.fence
    }

    fn record_attempt(&mut self, claim: &RunClaim, number: u32, reason: Reason, now: i64) -> Option<u64> {
        let fence = self.next_fence(now);
        let attempt = Attempt::new((claim.slot, None), claim.token, &claim.instance, fence, now);
        self.attempts.push(Attempt { number, reason, ..attempt });
        Some(fence)
    }

    fn again(&mut self, claim: &RunClaim, now: i64) -> ClaimOutcome {
        let mut max_attempts = claim.max_attempts;
        if let Some(run) = self.runs.get_mut((claim.slot, None)) {
            run.renew(claim.lease, now);
            max_attempts = run.max_attempts;
        }
        match self.attempts.iter().rev().find(|a| a.token == claim.token) {
            Some(attempt) => ClaimOutcome::Won {
                attempt: attempt.number,
                fence: Some(attempt.fence),
                reason: attempt.reason,
                max_attempts,
            },
            None => ClaimOutcome::Gone,
        }
    }

    fn take_over(&mut self, claim: &RunClaim, now: i64) -> ClaimOutcome {
        let Some(run) = self.runs.get_mut((claim.slot, None)) else {
            return ClaimOutcome::Gone;
        };
        let (reason, lost) = run.take_over(claim, now);
        let (attempt, max_attempts) = (run.attempt, run.max_attempts);
        if let Some(token) = lost {
            self.end_attempt(token, AttemptStatus::Lost, None, now);
        }
        let fence = self.record_attempt(claim, attempt, reason, now);
        ClaimOutcome::Won { attempt, fence, reason, max_attempts }
    }

    fn start(&mut self, claim: &RunClaim, now: i64) -> ClaimOutcome {
        if claim.overlap == Overlap::Skip {
            self.supersede(claim.slot);
        }
        self.runs.insert(StoredRun::start(claim, now));
        let reason = claim.kind.first_reason();
        let fence = self.record_attempt(claim, 1, reason, now);
        ClaimOutcome::Won { attempt: 1, fence, reason, max_attempts: claim.max_attempts }
    }

    /// Waiting runs of older slots end with their last attempt's status: the newer slot replaces them.
    fn supersede(&mut self, slot: Slot) {
        for run in self.runs.unfinished_mut() {
            if run.status == Status::Waiting && run.key.slot < slot {
                run.close();
                if let Some(attempt) = self.attempts.iter_mut().rev().find(|a| a.run == id(&run.key)) {
                    attempt.note = Some("superseded");
                }
            }
        }
    }

    fn skip(&mut self, claim: &RunClaim, reason: SkipReason, now: i64) -> ClaimOutcome {
        let slot = claim.slot;
        let between =
            |last: Slot| self.runs.all().any(|r| r.key.manual.is_none() && r.key.slot > last && r.key.slot < slot);
        let extends = self
            .skips
            .values()
            .rev()
            .find(|s| s.last < slot)
            .filter(|s| s.reason == reason && claim.previous == Some(s.last) && !between(s.last))
            .map(|s| s.first);
        match extends.and_then(|first| self.skips.get_mut(&first)) {
            Some(record) => {
                record.last = slot;
                record.count += 1;
            }
            None => {
                self.skips.insert(slot, SkipRecord::new(claim.job.clone(), slot, slot, 1, reason));
            }
        }
        let facts = self.facts(claim, None, now);
        match (reason, facts.live.or(facts.orphaned)) {
            (SkipReason::Overlap, Some(blocker)) => lease::overlap(blocker, now, true),
            _ => ClaimOutcome::Paused { recorded: true },
        }
    }

    pub(super) fn claim_manual(&mut self, claim: &ManualClaim, now: i64) -> ManualOutcome {
        if now > claim.valid_until {
            return ManualOutcome::Late;
        }
        self.close_over(None, now);
        if let Some(attempt) = self.attempts.iter().rev().find(|a| a.run.1 == Some(claim.token)) {
            // A repeated packet renews: its sender counts the lease from the sending of the one that was answered.
            return match self.runs.get_mut(attempt.run) {
                Some(run) if run.token == Some(claim.token) => {
                    run.renew(claim.lease, now);
                    ManualOutcome::Won { slot: attempt.run.0, fence: Some(attempt.fence) }
                }
                _ => ManualOutcome::Late,
            };
        }
        if claim.exclusive && self.runs.unfinished().any(|run| run.counts && run.live(now)) {
            return ManualOutcome::Overlap;
        }
        let slot = Slot::from_ms(now);
        let key = RunKey::manual(claim.job.clone(), slot, claim.token);
        let until = lease::later(now, claim.lease);
        self.runs.insert(StoredRun::start_manual(key.clone(), claim.token, until, claim.exclusive));
        let fence = self.next_fence(now);
        self.attempts.push(Attempt::new(id(&key), claim.token, &claim.instance, fence, now));
        ManualOutcome::Won { slot, fence: Some(fence) }
    }

    pub(super) fn heartbeat(&mut self, beat: &Beat, now: i64) -> BeatOutcome {
        match self.runs.get_mut(id(&beat.run)) {
            Some(run) if run.token == Some(beat.token) && run.live(now) => {
                run.renew(beat.lease, now);
                BeatOutcome::Alive
            }
            _ => BeatOutcome::Lost,
        }
    }

    pub(super) fn finish(&mut self, finish: &Finish, now: i64) -> FinishOutcome {
        let Some(run) = self.runs.get_mut(id(&finish.run)) else {
            return FinishOutcome::Lost;
        };
        if run.token == Some(finish.token) {
            let outcome = run.finish(&finish.ending, finish.last, now);
            self.end_attempt(finish.token, finish.ending.status(), finish.ending.error(), now);
            if finish.last
                && let Some(attempt) = self.attempts.iter_mut().rev().find(|a| a.token == finish.token)
            {
                attempt.note = Some("stopped");
            }
            return outcome;
        }
        let ended = ended_as(&self.attempts, id(&finish.run), finish.token);
        let done = finish.unless_done && ended == Some(AttemptStatus::Done);
        if done || ended == Some(finish.ending.status()) { run.finished(now) } else { FinishOutcome::Lost }
    }

    pub(super) fn release(&mut self, release: &Release, now: i64) -> ReleaseOutcome {
        let Some(run) = self.runs.get_mut(id(&release.run)) else {
            return ReleaseOutcome::Lost;
        };
        let status = if release.returned { AttemptStatus::Returned } else { AttemptStatus::HandedOver };
        if run.token == Some(release.token) {
            run.release(release.returned, now);
            self.end_attempt(release.token, status, None, now);
            return ReleaseOutcome::Released;
        }
        let ended = ended_as(&self.attempts, id(&release.run), release.token);
        if ended == Some(status) { ReleaseOutcome::Released } else { ReleaseOutcome::Lost }
    }

    pub(super) fn active(&mut self, now: i64, into: &mut Vec<ActiveRun>) {
        let over: Vec<Token> = self
            .runs
            .unfinished()
            .filter(|r| r.key.manual.is_some() && r.closes(now))
            .filter_map(|r| r.token)
            .collect();
        for run in self.runs.unfinished_mut().filter(|r| r.key.manual.is_some() && r.closes(now)) {
            run.close();
        }
        over.into_iter().for_each(|token| self.end_attempt(token, AttemptStatus::Lost, None, now));
        for run in self.runs.unfinished() {
            let instance = self.attempts.iter().rev().find(|a| a.run == id(&run.key)).map(|a| a.instance.clone());
            into.push(ActiveRun::new(run.key.clone(), run.status, run.attempt, instance, run.left(now)));
        }
    }

    pub(super) fn known(&self, job: &JobName) -> KnownJob {
        let schedules = self.schedules.iter().map(|(identity, schedule)| KnownSchedule {
            registered: schedule
                .registered
                .as_ref()
                .map(|by| run::Registrant::new(by.instance.as_str(), &*by.fingerprint, by.at)),
            ..KnownSchedule::new(&**identity, schedule.floor)
        });
        KnownJob {
            trim_mark: self.trim_mark.map(Slot::from_ms),
            pause: self.paused.as_deref().cloned(),
            schedules: schedules.collect(),
            ..KnownJob::new(job.clone())
        }
    }

    pub(super) fn history(&self, job: &JobName, limit: u32) -> Vec<Record> {
        let attempts = self.attempts.iter().map(|attempt| {
            let run_status = self.runs.get(attempt.run).map(|run| run.status);
            Record::Attempt(attempt.record(job, run_status))
        });
        let skips = self.skips.values().map(|skip| Record::Skipped(SkipRecord { job: job.clone(), ..skip.clone() }));
        crate::history::newest(attempts.chain(skips).collect(), limit)
    }
}

/// How the attempt of `run` that has `token` stands. The token of another run's attempt proves nothing.
fn ended_as(attempts: &[Attempt], run: RunId, token: Token) -> Option<AttemptStatus> {
    attempts.iter().rev().find(|a| a.run == run && a.token == token).map(|a| a.status)
}
