//! Claims go in batches, and are repeated with the same token until they are answered or too late.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::clocks::Now;
use super::due::Due;
use super::engine::{Answers, Engine, Reply};
use super::ids::IdMap;
use super::timer::Timer;
use crate::backend::AT_ONCE;
use crate::clock::{from_ms, to_ms};
use crate::error::{BackendError, BackendErrorKind};
use crate::event::Event;
use crate::job::Job;
use crate::lease::later;
use crate::run::{ClaimKind, ClaimOutcome, Lateness, RunClaim, RunKey, SkipReason, Timed};
use crate::slot::Token;

/// Claims that go in one call at most.
pub(super) const BATCH: usize = AT_ONCE;
/// Claim calls under way at once.
const CALLS: usize = 2;
/// A queue shorter than this is sent soon enough to be left alone.
const LONG_QUEUE: usize = BATCH;
/// A claim packet may come this much later than its call's deadline before the store refuses it.
pub(super) const PACKET_LIFE: Duration = Duration::from_secs(1);
const FIRST_RETRY: Duration = Duration::from_millis(50);
const LONGEST_RETRY: Duration = Duration::from_secs(2);

/// One claim from its first sending to its end.
pub(super) struct Claim {
    pub(super) job: Arc<Job>,
    pub(super) due: Due,
    pub(super) token: Token,
    pub(super) tries: u32,
    /// The store time until which the copy under way may be taken up.
    pub(super) valid_until: i64,
    /// The store time until which a copy that was never answered may be taken up.
    pub(super) unanswered_until: Option<i64>,
    /// Sent alone, since a batch with it failed.
    pub(super) alone: bool,
    /// A takeover is given up at this time since boot.
    pub(super) give_up: Option<Duration>,
}

/// The claims that are not under way: those that are, are with their call.
#[derive(Default)]
pub(super) struct Claims {
    /// To be sent as soon as a call is free.
    pub(super) queue: VecDeque<Claim>,
    /// To be sent again some time.
    pub(super) waiting: IdMap<Claim>,
    /// The length at which the queue is next looked through for claims that are too late.
    look_through_at: usize,
    under_way: usize,
    /// The claims in those calls.
    sent: usize,
    /// To be sent again once the user's runtime has shown that it is alive, by the tick that asked for it.
    pub(super) unproven: VecDeque<(u64, u64)>,
    /// The tick whose probe has not run yet. There is one at a time: on a runtime that hangs they would pile up.
    pub(super) probing: Option<u64>,
}

impl Claims {
    pub(super) fn under_way(&self) -> bool {
        self.under_way > 0
    }

    /// All that are not decided yet.
    pub(super) fn len(&self) -> usize {
        self.queue.len() + self.waiting.len() + self.sent
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

impl Engine {
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
            self.claims.sent += claims.len();
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
        // A takeover that is not sent must not leave the run watched for its answer. A job that was added again has begun
        // a watch of its own.
        if self.watched.get(&key).is_some_and(|watched| watched.over_at.is_none()) {
            self.watched.remove(&key);
        }
        self.owe_return(key, claim.token, claim.unanswered_until, now);
    }

    /// At most [`BATCH`] claims, each of another job, sorted by name; or one that must go alone.
    fn next_batch(&mut self, now: Now) -> Vec<Claim> {
        let mut batch = Vec::with_capacity(BATCH.min(self.claims.queue.len()));
        while let Some(mut claim) = self.claims.queue.pop_front() {
            // While an attempt of this run goes on here, and be it one that lost its lease and blocks its thread,
            // another must not be won here: the two would run at once. When it ends, the run is watched again.
            let state = self.jobs.get(claim.due.job);
            if state.is_none_or(|state| state.running.has(claim.due.slot)) {
                self.drop_claim(&claim, now);
                continue;
            }
            // In trouble it is tried as it is, and given up; what can be made up for is looked for afterwards.
            if self.trouble.is_none() {
                self.make_up(&mut claim.due, now);
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
        self.claims.sent = self.claims.sent.saturating_sub(claims.len());
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
        self.jobs.note_pause(claim.due.job, &outcome);
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
                // The run may be given up by whoever has it before that copy is refused.
                self.owe_return(key.clone(), claim.token, earlier, now);
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
            ClaimOutcome::Late(Lateness::Stale)
                if !stopping
                    && (self.in_time(&claim.due, claim.give_up, now)
                        || !takeover && self.still_worth(&claim.due, self.store_ms(now))) =>
            {
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

    pub(super) fn in_time(&self, due: &Due, give_up: Option<Duration>, now: Now) -> bool {
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
            claim.alone = together || error.kind() == BackendErrorKind::Refused;
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
        let (fresh, stale): (VecDeque<Claim>, VecDeque<Claim>) = queue.into_iter().partition(|claim| {
            let due = &claim.due;
            let may_be_made_up = self.trouble.is_none() && due.kind == ClaimKind::Scheduled;
            self.in_time(due, claim.give_up, now) || may_be_made_up && self.still_worth(due, self.store_ms(now))
        });
        self.claims.look_through_at = (fresh.len() * 2).max(LONG_QUEUE);
        self.claims.queue = fresh;
        stale.iter().for_each(|claim| self.give_up_claim(claim, now));
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
