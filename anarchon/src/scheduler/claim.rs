//! From a due slot to the store's answer: groups with one wait each, batches, and claims that are repeated with the
//! same token until they are answered or too late.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::clocks::Now;
use super::engine::{Answers, COALESCE_AFTER, Engine, Input, Reply};
use super::ids::IdMap;
use super::jobs::JobState;
use super::timer::{JobId, Timer};
use crate::clock::{from_ms, to_ms};
use crate::error::{BackendError, BackendErrorKind};
use crate::event::Event;
use crate::job::Job;
use crate::lease::later;
use crate::run::{ClaimKind, ClaimOutcome, Lateness, Release, ReleaseOutcome, RunClaim, RunKey, SkipReason, Timed};
use crate::slot::{Slot, Token};

/// Claims that go in one call at most.
const BATCH: usize = 64;
/// Into how many groups the due jobs of one instance are split, so that one instance does not win everything.
const GROUPS: usize = 4;
/// Due jobs are shuffled in about so many blocks: neighbours stay together, in memory and in batches, as far as the
/// instances can still share the blocks among them.
const BLOCKS: usize = 64;
/// Claim calls under way at once.
const CALLS: usize = 2;
/// A queue shorter than this is sent soon enough to be left alone.
const LONG_QUEUE: usize = 256;
/// A claim packet may come this much later than its call's deadline before the store refuses it.
const PACKET_LIFE: Duration = Duration::from_secs(1);
const FIRST_RETRY: Duration = Duration::from_millis(50);
const LONGEST_RETRY: Duration = Duration::from_secs(2);

/// A slot to be claimed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub(super) job: JobId,
    pub(super) slot: Slot,
    pub(super) kind: ClaimKind,
    pub(super) limit: Duration,
    pub(super) jitter: Duration,
    pub(super) previous: Option<Slot>,
}

/// Due jobs that wait together: out their jitter, then for a sign that the user's runtime is alive.
pub(super) struct Group {
    due: Vec<Due>,
    /// The tick from which on a task of the runtime is a sign of life, once the jitter is over.
    asked: Option<u64>,
}

/// One claim from its first sending to its end.
pub(super) struct Claim {
    pub(super) job: Arc<Job>,
    pub(super) due: Due,
    pub(super) token: Token,
    tries: u32,
    /// The store time until which the copy under way may be taken up.
    valid_until: i64,
    /// The store time until which a copy that was never answered may be taken up.
    unanswered_until: Option<i64>,
    /// Sent alone, since a batch with it failed.
    alone: bool,
    /// A takeover is given up at this time since boot.
    give_up: Option<Duration>,
}

/// The claims that are not under way: those that are, are with their call.
#[derive(Default)]
pub(super) struct Claims {
    /// To be sent as soon as a call is free.
    queue: VecDeque<Claim>,
    /// To be sent again some time.
    waiting: IdMap<Claim>,
    /// The length at which the queue is next looked through for claims that are too late.
    look_through_at: usize,
    under_way: usize,
    /// To be sent again once the user's runtime has shown that it is alive, by the tick that asked for it.
    unproven: VecDeque<(u64, u64)>,
    /// The tick whose probe has not run yet. There is one at a time: on a runtime that hangs they would pile up.
    probing: Option<u64>,
}

impl Claims {
    pub(super) fn under_way(&self) -> bool {
        self.under_way > 0
    }

    /// Whether some wait only for a free call.
    pub(super) fn any_to_send(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Takes all that is not under way.
    pub(super) fn take_unsent(&mut self) -> Vec<Claim> {
        let mut waiting: Vec<(u64, Claim)> = self.waiting.drain().collect();
        waiting.sort_unstable_by_key(|(id, _)| *id);
        self.unproven.clear();
        self.queue.drain(..).chain(waiting.into_iter().map(|(_, claim)| claim)).collect()
    }
}

/// A token that an unanswered claim may have won, or may yet win: it is returned until that is answered.
#[derive(Clone, Debug)]
pub(super) struct OwedReturn {
    run: RunKey,
    /// No copy of the claim can be taken up after this store time.
    until: i64,
    /// A lease that it won is over by this time since boot.
    give_up: Duration,
    since: Duration,
    under_way: bool,
}

impl Engine {
    /// Takes what is due from the heap and sets each job's next slot.
    pub(super) fn due_slots(&mut self, now: Now) {
        let store_now = self.store_ms(now);
        let mut due = Vec::new();
        loop {
            let slots = self.due.take(store_now);
            if slots.is_empty() {
                break;
            }
            // Of frequent jobs more than one may be due.
            self.next_slots(slots, store_now, &mut due);
        }
        self.schedule(due, now);
    }

    fn next_slots(&mut self, slots: Vec<(i64, JobId)>, store_now: i64, due: &mut Vec<Due>) {
        let leases = self.leases;
        let mut nexts = Vec::with_capacity(slots.len());
        due.reserve(slots.len());
        for (mut slot, id) in slots {
            let Some(state) = self.jobs.get_mut(id) else { continue };
            let job = &*state.job;
            let mut kind = ClaimKind::Scheduled;
            let mut missed = None;
            if from_ms(store_now.saturating_sub(slot)) > COALESCE_AFTER {
                // By calculation, however many slots lie between.
                let latest = job.schedule.latest(store_now).unwrap_or(slot);
                if latest > slot {
                    missed = job.previous(Slot::from_ms(latest));
                    slot = latest;
                    state.previous = missed;
                }
                kind = ClaimKind::CatchUp;
            }
            let next = job.schedule.next(slot);
            let gap = next.map(|next| from_ms(next.saturating_sub(slot)));
            let slot = Slot::from_ms(slot);
            let previous = if leases { state.previous.or_else(|| job.previous(slot)) } else { None };
            state.previous = Some(slot);
            state.next = next;
            state.handled = state.handled.max(slot.ms());
            nexts.extend(next.map(|next| (next, id)));
            let jitter = job.jitter(gap);
            let limit = match kind {
                ClaimKind::CatchUp if leases => job.max_late.max(job.catch_up(gap)),
                _ => job.max_late,
            };
            // A wait that the job asks for does not make its slot late.
            let limit = limit.saturating_add(jitter);
            if let Some(slot) = missed {
                let job = job.name.clone();
                self.emit(Event::Missed { job, slot });
            }
            due.push(Due { job: id, slot, kind, limit, jitter, previous });
        }
        self.due.extend(nexts);
    }

    /// Splits due jobs into groups by the length of their jitter, and lets each group wait.
    pub(super) fn schedule(&mut self, mut due: Vec<Due>, now: Now) {
        if due.is_empty() {
            return;
        }
        self.drop_stale_groups(now);
        let block = due.len().div_ceil(BLOCKS).min(BATCH);
        self.random.shuffle_blocks(&mut due, block);
        due.sort_by_key(|due| due.jitter);
        for same in due.chunk_by(|a, b| a.jitter == b.jitter) {
            let jitter = same[0].jitter;
            let groups = if jitter.is_zero() { 1 } else { GROUPS };
            for due in same.chunks(same.len().div_ceil(groups)) {
                let id = self.id();
                let wait = self.random.wait(jitter);
                self.groups.insert(id, Group { due: due.to_vec(), asked: None });
                self.timers.set(now.boot + wait, Timer::Group(id));
            }
        }
    }

    /// Asks the user's runtime for a sign of life, only now: a handler that was started while the group waited may
    /// have blocked it.
    pub(super) fn group_waited(&mut self, id: u64) {
        let tick = self.id();
        if let Some(group) = self.groups.get_mut(&id) {
            group.asked = Some(tick);
            self.probe(tick);
        }
    }

    /// Lets the user's runtime run a task: an instance that could not start a run must not win it.
    fn probe(&mut self, tick: u64) {
        if self.claims.probing.is_some() {
            return; // its answer asks for the next
        }
        self.claims.probing = Some(tick);
        let inputs = self.inputs.clone();
        self.handlers.spawn(async move {
            let _ = inputs.send(Input::Probe(tick));
        });
    }

    /// The user's runtime was alive after this tick.
    pub(super) fn probed(&mut self, tick: u64) {
        self.claims.probing = None;
        let (proven, unproven): (Vec<_>, Vec<_>) = self
            .groups
            .iter()
            .filter_map(|(id, group)| Some((group.asked?, *id)))
            .partition(|(asked, _)| *asked <= tick);
        let mut proven: Vec<u64> = proven.into_iter().map(|(_, id)| id).collect();
        proven.sort_unstable();
        proven.into_iter().for_each(|id| self.group_ready(id));
        while let Some((_, id)) = self.claims.unproven.pop_front_if(|(asked, _)| *asked <= tick) {
            self.claims.queue.extend(self.claims.waiting.remove(&id));
        }
        let group = unproven.into_iter().map(|(asked, _)| asked).max();
        let claim = self.claims.unproven.back().map(|(asked, _)| *asked);
        if let Some(newest) = group.max(claim) {
            self.probe(newest);
        }
    }

    /// A claim is to be sent again: the runtime may have begun to hang since the last time.
    pub(super) fn claim_again(&mut self, id: u64) {
        if self.claims.waiting.contains_key(&id) {
            let tick = self.id();
            self.claims.unproven.push_back((tick, id));
            self.probe(tick);
        }
    }

    /// What waits for a runtime that hangs is dropped once it is too late for it.
    fn drop_stale_groups(&mut self, now: Now) {
        if self.claims.probing.is_none() {
            return;
        }
        let store_now = self.store_ms(now);
        let mut groups = std::mem::take(&mut self.groups);
        let mut stale: Vec<Due> = Vec::new();
        groups.retain(|_, group| {
            stale.extend(group.due.extract_if(.., |due| !self.still_worth(due, store_now)));
            !group.due.is_empty()
        });
        self.groups = groups;
        stale.sort_unstable_by_key(|due| (due.slot, due.job));
        stale.into_iter().for_each(|due| self.too_late(&due));
    }

    fn too_late(&self, due: &Due) {
        let Some(state) = self.jobs.get(due.job) else { return };
        let job = state.job.name.clone();
        tracing::warn!(%job, slot = %due.slot, "missed: the runtime of the handlers runs no tasks");
        self.emit(Event::Missed { job, slot: due.slot });
    }

    /// Whether a slot that waits may still be claimed: in time, or as one to be made up for.
    fn still_worth(&self, due: &Due, store_now: i64) -> bool {
        let Some(state) = self.jobs.get(due.job) else { return false };
        let age = store_now.saturating_sub(due.slot.ms());
        due.kind == ClaimKind::Takeover
            || age <= to_ms(due.limit)
            || age <= to_ms(self.made_up_within(state, due.slot))
                && state.job.schedule.latest(store_now) == Some(due.slot.ms())
    }

    /// How old a slot may be to be made up for; zero on a store without leases.
    fn made_up_within(&self, state: &JobState, slot: Slot) -> Duration {
        let gap = state.job.schedule.gap_after(slot.ms());
        if self.leases { state.job.catch_up(gap).saturating_add(state.job.jitter(gap)) } else { Duration::ZERO }
    }

    fn group_ready(&mut self, id: u64) {
        if self.stopping.is_some() {
            return;
        }
        let Some(group) = self.groups.remove(&id) else { return };
        let now = self.now();
        let store_now = self.store_ms(now);
        let give_up = now.boot + self.settings.lease;
        self.claims.queue.reserve(group.due.len());
        for mut due in group.due {
            if !self.still_worth(&due, store_now) {
                self.too_late(&due);
                continue;
            }
            let Some(state) = self.jobs.get(due.job) else { continue };
            // The runtime hung: once it is back, the slot is made up for like one that was due before a wake-up.
            if due.kind == ClaimKind::Scheduled && !self.in_time(&due, None, now) {
                due.kind = ClaimKind::CatchUp;
                due.limit = self.made_up_within(state, due.slot);
            }
            self.claims.queue.push_back(Claim {
                job: Arc::clone(&state.job),
                due,
                token: self.random.token(),
                tries: 0,
                valid_until: i64::MAX,
                unanswered_until: None,
                alone: false,
                give_up: (due.kind == ClaimKind::Takeover).then_some(give_up),
            });
        }
    }

    /// Sends what waits to be sent, as far as calls are free.
    pub(super) fn send_claims(&mut self, now: Now) {
        self.drop_stale_claims(now);
        while self.claims.under_way < CALLS && !self.claims.queue.is_empty() {
            let mut claims = self.next_batch(now);
            if claims.is_empty() {
                continue;
            }
            let valid_until = later(self.store_ms(now), self.settings.call_deadline() + PACKET_LIFE);
            let mut requests = Vec::with_capacity(claims.len());
            for claim in &mut claims {
                claim.tries += 1;
                claim.valid_until = valid_until;
                requests.push(self.request(claim));
            }
            self.claims.under_way += 1;
            let (store, sent) = (Arc::clone(&self.store), now.boot);
            let requests = Arc::new(requests);
            let asked = Arc::clone(&requests);
            let call = self.many_with_deadline(claims.len(), async move { store.claim_many(&asked).await });
            self.calls.push(Box::pin(async move { Reply::Claims { claims, requests, sent, answers: call.await } }));
        }
    }

    fn request(&self, claim: &Claim) -> RunClaim {
        let Claim { job, due, token, valid_until, .. } = claim;
        let mut request = RunClaim::new(job.name.clone(), due.slot, *token, self.instance.clone());
        request.kind = due.kind;
        request.identity = Arc::clone(&job.identity);
        request.floor = self.jobs.get(due.job).map_or(i64::MIN, |state| state.floor);
        request.previous = due.previous;
        request.limit = due.limit;
        request.lease = self.settings.lease;
        request.overlap = job.overlap;
        request.max_attempts = job.max_attempts;
        request.retry_failed = job.retry_failed;
        request.takeover_within = job.takeover_within();
        request.valid_until = *valid_until;
        request.retention = job.retention;
        request
    }

    /// A claim that is not wanted any more: if a copy may have won, it is returned.
    fn drop_claim(&mut self, claim: &Claim, now: Now) {
        let key = RunKey::scheduled(claim.job.name.clone(), claim.due.slot);
        // A takeover that is not sent must not leave the run watched for its answer.
        self.watched.remove(&key);
        self.owe_return(key, claim.token, claim.unanswered_until, now);
    }

    /// At most 64 claims, each of another job, sorted by name; or one that must go alone.
    fn next_batch(&mut self, now: Now) -> Vec<Claim> {
        let mut batch = Vec::with_capacity(BATCH.min(self.claims.queue.len()));
        while let Some(claim) = self.claims.queue.pop_front() {
            // While an attempt of this run goes on here, and be it one that lost its lease and blocks its thread,
            // another must not be won here: the two would run at once. When it ends, the run is watched again.
            let state = self.jobs.get(claim.due.job);
            if state.is_none_or(|state| state.running.has(claim.due.slot)) {
                self.drop_claim(&claim, now);
                continue;
            }
            if claim.alone && !batch.is_empty() {
                self.claims.queue.push_front(claim);
                break;
            }
            let alone = claim.alone;
            batch.push(claim);
            if alone || batch.len() == BATCH {
                break;
            }
        }
        let (batch, later) = each_job_once(batch);
        later.into_iter().rev().for_each(|claim| self.claims.queue.push_front(claim));
        batch
    }

    pub(super) fn claims_answered(
        &mut self,
        claims: Vec<Claim>,
        requests: Arc<Vec<RunClaim>>,
        sent: Duration,
        answers: Answers<ClaimOutcome>,
        now: Now,
    ) {
        self.claims.under_way = self.claims.under_way.saturating_sub(1);
        let together = claims.len() > 1;
        let clock = answers.iter().flatten().next().map(|timed| timed.store_ms);
        if let Some(store_ms) = clock {
            self.store_said(store_ms, sent, now);
        }
        // The names in the requests go on into the runs: to count another holder of each costs more than all the rest.
        let mut names = Arc::try_unwrap(requests).unwrap_or_default().into_iter().map(|request| request.job);
        for (claim, answer) in claims.into_iter().zip(answers) {
            let name = names.next().unwrap_or_else(|| claim.job.name.clone());
            match answer {
                Ok(Timed { value, .. }) => {
                    self.claim_answered(RunKey::scheduled(name, claim.due.slot), claim, value, sent, now);
                }
                Err(error) => self.claim_failed(claim, &error, together, now),
            }
        }
    }

    /// Keeps a claim until it is sent again.
    fn claim_later(&mut self, claim: Claim, at: Duration) {
        let id = self.id();
        self.claims.waiting.insert(id, claim);
        self.timers.set(at, Timer::Claim(id));
    }

    fn claim_answered(&mut self, key: RunKey, claim: Claim, outcome: ClaimOutcome, sent: Duration, now: Now) {
        // This copy is answered; an earlier one that was not can only win where this answer leaves the slot open.
        let earlier = claim.unanswered_until;
        let takeover = claim.due.kind == ClaimKind::Takeover;
        let stopping = self.stopping.is_some();
        match outcome {
            ClaimOutcome::Won { attempt, fence, reason, max_attempts } => {
                self.won(claim, key, super::runner::Win { attempt, fence, reason, max_attempts }, sent, now);
                return;
            }
            // What is to be asked again is not asked again while stopping.
            ClaimOutcome::Early { .. } if stopping => {}
            ClaimOutcome::Early { wait } => {
                let wait = wait.min(Duration::from_secs(30)) + Duration::from_millis(1);
                self.claim_later(claim, now.boot + wait);
                return;
            }
            ClaimOutcome::Running { left } => {
                let backup = self.watch_run(key.clone(), left, now);
                self.tell(|| Event::LostRace { run: key, backup });
                return;
            }
            ClaimOutcome::Done { .. } | ClaimOutcome::Gone => {
                self.watched.remove(&key);
                if !takeover {
                    self.tell(|| Event::LostRace { run: key, backup: false });
                }
                return;
            }
            ClaimOutcome::Paused { recorded } => {
                if recorded {
                    self.skipped(&claim, SkipReason::Paused, None, now);
                } else if takeover {
                    self.look_again(&key, now);
                }
            }
            ClaimOutcome::Overlap { blocker, left, recorded } => {
                self.watch_run(blocker.clone(), left, now);
                if recorded {
                    self.skipped(&claim, SkipReason::Overlap, Some(blocker), now);
                } else if takeover {
                    self.look_again(&key, now);
                } else if !stopping && self.still_latest(&claim, now) {
                    // A catch-up waits for the run that stands in its way.
                    let wait = left.min(self.settings.watch).max(Duration::from_millis(100));
                    self.claim_later(claim, now.boot + wait);
                    return;
                } else if !stopping {
                    self.missed(&claim);
                }
            }
            ClaimOutcome::Late(Lateness::Stale) if !stopping && self.in_time(&claim.due, claim.give_up, now) => {
                self.claim_later(claim, now.boot + FIRST_RETRY);
                return;
            }
            // A takeover is late only when its packet was; it is tried again with another token.
            ClaimOutcome::Late(_) if takeover => self.look_again(&key, now),
            ClaimOutcome::Late(Lateness::Floor | Lateness::Stale) => {}
            ClaimOutcome::Late(_) => self.missed(&claim),
        }
        self.owe_return(key, claim.token, earlier, now);
    }

    fn skipped(&mut self, claim: &Claim, reason: SkipReason, blocker: Option<RunKey>, now: Now) {
        let (job, slot) = (claim.job.name.clone(), claim.due.slot);
        self.trim_later(&job, now);
        self.emit(Event::Skipped { job, slot, reason, blocker: blocker.clone() });
        let Some(blocker) = blocker else { return };
        let Some(state) = self.jobs.get_mut(claim.due.job) else { return };
        let count = match state.skips.as_deref() {
            Some((run, count)) if *run == blocker => count + 1,
            _ => 1,
        };
        state.skips = Some(Box::new((blocker.clone(), count)));
        if count == 3 && claim.job.timeout.is_none() {
            let age = from_ms(self.store_ms(now).saturating_sub(blocker.slot.ms()));
            tracing::warn!(run = %blocker, ?age, "this run makes slot after slot skip, and its job has no `timeout`");
            self.emit(Event::LongRun { run: blocker, age });
        }
    }

    /// Says it once for each claim: it is repeated until it is too late.
    fn refused(&self, claim: &Claim, error: &BackendError) {
        if error.kind() == BackendErrorKind::Refused && claim.tries == 1 {
            tracing::warn!(job = %claim.job.name, slot = %claim.due.slot, %error, "the store refuses this claim");
        }
    }

    fn missed(&self, claim: &Claim) {
        let (job, slot) = (claim.job.name.clone(), claim.due.slot);
        tracing::warn!(%job, %slot, "missed: not run by this instance, and too late now");
        self.emit(Event::Missed { job, slot });
    }

    fn in_time(&self, due: &Due, give_up: Option<Duration>, now: Now) -> bool {
        match give_up {
            Some(at) => now.boot < at,
            None => self.store_ms(now).saturating_sub(due.slot.ms()) <= to_ms(due.limit),
        }
    }

    fn still_latest(&self, claim: &Claim, now: Now) -> bool {
        let newer = claim.job.schedule.next(claim.due.slot.ms()).is_some_and(|next| next <= self.store_ms(now));
        !newer && self.in_time(&claim.due, claim.give_up, now)
    }

    /// Repeats a failed claim with the same token, or gives it up.
    fn claim_failed(&mut self, mut claim: Claim, error: &BackendError, together: bool, now: Now) {
        self.store_failed(error, now);
        self.refused(&claim, error);
        if error.kind() == BackendErrorKind::Unknown {
            // A store clock that was set back meanwhile makes the later copy expire first.
            claim.unanswered_until = claim.unanswered_until.max(Some(claim.valid_until));
        }
        if self.stopping.is_none()
            && self.jobs.get(claim.due.job).is_some()
            && self.in_time(&claim.due, claim.give_up, now)
        {
            let wait = FIRST_RETRY.saturating_mul(1 << claim.tries.min(6)).min(LONGEST_RETRY) / 2;
            claim.alone = together;
            let wait = wait + self.random.wait(wait);
            self.claim_later(claim, now.boot + wait);
            return;
        }
        self.give_up_claim(&claim, now);
    }

    /// Nothing more is sent for this claim, and nobody knows of a winner.
    fn give_up_claim(&mut self, claim: &Claim, now: Now) {
        let key = RunKey::scheduled(claim.job.name.clone(), claim.due.slot);
        if claim.due.kind == ClaimKind::Takeover {
            self.look_again(&key, now);
        } else {
            // Once the store answers again, it may still be caught up with.
            if let Some(state) = self.jobs.get_mut(claim.due.job) {
                state.handled = state.handled.min(claim.due.slot.ms().saturating_sub(1));
            }
            if claim.unanswered_until.is_some() {
                tracing::warn!(job = %claim.job.name, slot = %claim.due.slot, "unclear: a claim was never answered");
                self.emit(Event::Unclear { job: claim.job.name.clone(), slot: claim.due.slot });
            } else if !self.in_time(&claim.due, claim.give_up, now) {
                self.missed(claim);
            }
        }
        self.owe_return(key, claim.token, claim.unanswered_until, now);
    }

    /// Gives up what waited for a free call until it was too late. In an outage more falls due than is sent; the queue
    /// is looked through each time it has doubled, since what may be claimed for long stands between the others.
    fn drop_stale_claims(&mut self, now: Now) {
        if self.claims.queue.len() < self.claims.look_through_at {
            return;
        }
        let queue = std::mem::take(&mut self.claims.queue);
        let (fresh, stale): (VecDeque<Claim>, VecDeque<Claim>) =
            queue.into_iter().partition(|claim| self.in_time(&claim.due, claim.give_up, now));
        self.claims.look_through_at = (fresh.len() * 2).max(LONG_QUEUE);
        self.claims.queue = fresh;
        stale.iter().for_each(|claim| self.give_up_claim(claim, now));
    }

    /// Notes that a copy of this token's claim may win although nobody waits for it.
    pub(super) fn owe_return(&mut self, run: RunKey, token: Token, until: Option<i64>, now: Now) {
        let Some(until) = until.filter(|_| self.leases) else { return };
        let give_up = now.boot + self.settings.call_deadline() + PACKET_LIFE + self.settings.lease;
        self.owed.insert(token, OwedReturn { run, until, give_up, since: now.boot, under_way: false });
        self.timers.set(now.boot, Timer::Return);
    }

    /// A won claim that is not to be started.
    pub(super) fn return_unstarted(&mut self, run: RunKey, token: Token, now: Now) {
        self.emit(Event::Returned { run: run.clone() });
        // Whether or not the return is answered, this instance may be the only one there is to start the run.
        self.watch_run(run.clone(), self.settings.lease, now);
        self.owe_return(run, token, Some(i64::MIN), now);
    }

    pub(super) fn send_returns(&mut self, now: Now) {
        self.owed.retain(|_, owed| owed.under_way || now.boot < owed.give_up);
        let waiting = self.owed.iter_mut().filter(|(_, owed)| !owed.under_way).take(BATCH);
        let mut releases = Vec::new();
        for (token, owed) in waiting {
            owed.under_way = true;
            releases.push(Release::unstarted(owed.run.clone(), *token));
        }
        if releases.is_empty() {
            return;
        }
        let tokens: Vec<Token> = releases.iter().map(|release| release.token).collect();
        let (store, sent) = (Arc::clone(&self.store), now.boot);
        let call = self.many_with_deadline(tokens.len(), async move { store.release_many(&releases).await });
        self.calls.push(Box::pin(async move { Reply::Returns { tokens, sent, answers: call.await } }));
    }

    pub(super) fn returns_answered(
        &mut self,
        tokens: Vec<Token>,
        sent: Duration,
        answers: Answers<ReleaseOutcome>,
        now: Now,
    ) {
        for (token, answer) in tokens.into_iter().zip(answers) {
            let store_ms = match &answer {
                Ok(timed) => {
                    self.store_said(timed.store_ms, sent, now);
                    Some(timed.store_ms.unwrap_or_else(|| self.store_ms(now)))
                }
                Err(error) => {
                    self.store_failed(error, now);
                    None
                }
            };
            let Some(owed) = self.owed.get_mut(&token) else { continue };
            owed.under_way = false;
            let (since, until) = (owed.since, owed.until);
            let over = match &answer {
                Ok(Timed { value: ReleaseOutcome::Released, .. }) => true,
                Ok(_) => store_ms.is_some_and(|ms| ms > until) || self.stopping.is_some(),
                Err(error) => self.no_time_left(error, since, sent, now),
            };
            if over && let Some(owed) = self.owed.remove(&token) {
                if matches!(&answer, Ok(Timed { value: ReleaseOutcome::Released, .. })) {
                    self.watch_run(owed.run, Duration::ZERO, now);
                }
            } else {
                self.timers.set(now.boot + Duration::from_millis(250), Timer::Return);
            }
        }
        if !self.owed.is_empty() {
            self.timers.set(now.boot + Duration::from_millis(250), Timer::Return);
        }
    }
}

/// Sorts claims by the names of their jobs, and puts aside all but the first of each job, in the order they came in.
fn each_job_once(claims: Vec<Claim>) -> (Vec<Claim>, Vec<Claim>) {
    let name = |index: &usize| claims[*index].job.name.as_str();
    let mut order: Vec<usize> = (0..claims.len()).collect();
    order.sort_unstable_by(|a, b| name(a).cmp(name(b)).then(a.cmp(b)));
    let mut later: Vec<usize> =
        order.windows(2).filter(|two| name(&two[0]) == name(&two[1])).map(|two| two[1]).collect();
    if !later.is_empty() {
        order.dedup_by(|b, a| name(a) == name(b));
        later.sort_unstable();
    }
    let mut claims: Vec<Option<Claim>> = claims.into_iter().map(Some).collect();
    let mut take = |order: Vec<usize>| order.into_iter().filter_map(|index| claims[index].take()).collect();
    (take(order), take(later))
}

impl Claim {
    /// What is owed if this claim is dropped: a copy of it that was never answered may have won.
    pub(super) fn owed(&self) -> Option<(RunKey, Token, i64)> {
        let run = RunKey::scheduled(self.job.name.clone(), self.due.slot);
        self.unanswered_until.map(|until| (run, self.token, until))
    }
}
