//! What the rules share: a client with short words for the calls, and waiting for events.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Fixture;
use crate::backend::{Backend, LeaseBackend};
use crate::clock::{Clock as _, SystemClock, to_ms};
use crate::error::{BackendError, BackendErrorKind};
use crate::run::{
    ActiveRun, AttemptRecord, AttemptStatus, Beat, BeatOutcome, ClaimKind, ClaimOutcome, Ending, Finish, FinishOutcome,
    ManualClaim, ManualOutcome, Pause, Reason, Record, Registered, Registration, Release, ReleaseOutcome, RunClaim,
    RunKey, SkipRecord, Status, Trim,
};
use crate::slot::{InstanceId, JobName, Slot, Token};

/// A lease that outlasts any rule.
pub(super) const LONG: Duration = Duration::from_secs(60);

/// A lease that is meant to run out.
pub(super) const SHORT: Duration = Duration::from_millis(40);

/// How long an event is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long is waited between two questions.
const PAUSE: Duration = Duration::from_millis(3);

/// Asks until there is an answer. Every wait of the suite is one of these: bounded, and on an event.
pub(super) async fn until<T>(event: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(start.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain until {event}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// The answer of a call that is repeated, as the scheduler would, while the store is busy. A macro, since the future of
/// an async closure can't be sent to another thread.
macro_rules! answer {
    ($call:literal, $ask:expr) => {{
        let begun = std::time::Instant::now();
        loop {
            match $ask {
                Ok(answer) => break answer,
                Err(error) => $crate::testing::conformance::support::busy($call, begun, &error).await,
            }
        }
    }};
}
pub(super) use answer;

/// Waits before a call is repeated, if it may be.
pub(super) async fn busy(call: &str, begun: Instant, error: &BackendError) {
    let may_be_repeated = matches!(error.kind(), BackendErrorKind::Busy | BackendErrorKind::Unknown);
    assert!(may_be_repeated && begun.elapsed() < PATIENCE, "{call}: {error}");
    tokio::time::sleep(PAUSE).await;
}

pub(super) fn job(name: &str) -> JobName {
    JobName::new(name).expect("a job name")
}

pub(super) fn instance(id: &str) -> InstanceId {
    InstanceId::new(id).expect("an instance id")
}

pub(super) fn failed(text: &str) -> Ending {
    Ending::Failed(text.to_owned())
}

pub(super) fn timed_out(text: &str) -> Ending {
    Ending::TimedOut(text.to_owned())
}

/// A won attempt.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Won {
    pub(super) run: RunKey,
    pub(super) token: Token,
    pub(super) instance: InstanceId,
    pub(super) attempt: u32,
    pub(super) fence: u64,
    pub(super) reason: Reason,
    pub(super) max_attempts: u32,
}

impl Won {
    fn of(claim: &RunClaim, outcome: &ClaimOutcome) -> Self {
        let ClaimOutcome::Won { attempt, fence, reason, max_attempts } = outcome.clone() else {
            panic!("the claim should have won, and got {outcome:?}: {claim:?}");
        };
        let fence = fence.expect("a store with leases gives a fence");
        let (token, instance) = (claim.token, claim.instance.clone());
        Self { run: claim.key(), token, instance, attempt, fence, reason, max_attempts }
    }
}

/// A client of the store under test, and one job on it.
pub(super) struct Client<B> {
    pub(super) store: Arc<B>,
    pub(super) job: JobName,
    pub(super) instance: InstanceId,
    /// The store's time when the rule began.
    pub(super) start: i64,
}

impl<B> Clone for Client<B> {
    fn clone(&self) -> Self {
        let (store, job, instance) = (Arc::clone(&self.store), self.job.clone(), self.instance.clone());
        Self { store, job, instance, start: self.start }
    }
}

impl<B: Backend> Client<B> {
    /// A connected client.
    pub(super) async fn new(fixture: &impl Fixture<Backend = B>) -> Self {
        let store = Arc::new(fixture.backend().await);
        answer!("connect", store.connect().await);
        let mut client = Self { store, job: job("job"), instance: instance("here"), start: 0 };
        client.start = client.now().await;
        client
    }

    /// The same client and store, for another job.
    pub(super) fn on(&self, name: &str) -> Self {
        Self { job: job(name), ..self.clone() }
    }

    /// Another client of the same store, as another instance, for the same job and with the same start.
    pub(super) async fn other(&self, fixture: &impl Fixture<Backend = B>, id: &str) -> Self {
        let other = Self::new(fixture).await;
        Self { job: self.job.clone(), instance: instance(id), start: self.start, ..other }
    }

    /// The store's clock, or ours where it has none.
    pub(super) async fn now(&self) -> i64 {
        answer!("clock", self.store.clock().await).unwrap_or_else(|| SystemClock.wall_ms())
    }

    /// Waits until the store's clock has gone on by more than `by`.
    pub(super) async fn pass(&self, by: Duration) {
        let (start, begun) = (self.now().await, Instant::now());
        while self.now().await <= start + to_ms(by) {
            assert!(begun.elapsed() < PATIENCE + by, "the store's clock stands still");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// The slot that was due this long before the rule began.
    pub(super) fn ago(&self, ms: i64) -> Slot {
        Slot::from_ms(self.start - ms)
    }

    pub(super) async fn register(&self, identity: &str, fingerprint: &str) -> Registered {
        self.register_forgetting(identity, fingerprint, Duration::from_secs(86_400 * 30)).await
    }

    pub(super) async fn register_forgetting(&self, identity: &str, fingerprint: &str, after: Duration) -> Registered {
        let (identity, fingerprint) = (identity.to_owned(), fingerprint.to_owned());
        let jobs = [Registration::new(self.job.clone(), identity, fingerprint, self.instance.clone())];
        let mut answers = answer!("register", self.store.register(&jobs, after).await).value;
        assert_eq!(answers.len(), 1, "one answer per registration");
        answers.remove(0)
    }

    pub(super) fn manual(&self) -> ManualClaim {
        let claim = ManualClaim::new(self.job.clone(), Token::random(), self.instance.clone(), self.start);
        ManualClaim { lease: LONG, ..claim }
    }

    pub(super) async fn claim_manual(&self, claim: &ManualClaim) -> ManualOutcome {
        answer!("claim_manual", self.store.claim_manual(claim).await).value
    }

    /// The run that this manual claim wins, and its fence.
    pub(super) async fn win_manual(&self, claim: &ManualClaim) -> (RunKey, Option<u64>) {
        match self.claim_manual(claim).await {
            ManualOutcome::Won { slot, fence } => (RunKey::manual(claim.job.clone(), slot, claim.token), fence),
            other => panic!("the manual claim should have won, and got {other:?}: {claim:?}"),
        }
    }

    pub(super) fn finish_of(&self, run: &RunKey, token: Token, ending: Ending) -> Finish {
        Finish::new(run.clone(), token, ending, self.instance.clone(), self.start)
    }

    pub(super) async fn send_finish(&self, finish: &Finish) -> FinishOutcome {
        answer!("finish", self.store.finish(finish).await).value
    }

    pub(super) async fn finish_with(&self, run: &RunKey, token: Token, ending: Ending) -> FinishOutcome {
        self.send_finish(&self.finish_of(run, token, ending)).await
    }

    pub(super) async fn records(&self, limit: u32) -> Vec<Record> {
        answer!("history", self.store.history(&self.job, limit).await)
    }

    /// All attempts of the job, newest first.
    pub(super) async fn attempts(&self) -> Vec<AttemptRecord> {
        self.records(10_000).await.iter().filter_map(|r| r.attempt().cloned()).collect()
    }

    /// The attempt with this token.
    pub(super) async fn attempt(&self, token: Token) -> AttemptRecord {
        let mut found: Vec<_> = self.attempts().await.into_iter().filter(|a| a.token == token).collect();
        assert_eq!(found.len(), 1, "history has one attempt per token: {found:?}");
        found.remove(0)
    }

    pub(super) async fn skips(&self) -> Vec<SkipRecord> {
        let records = self.records(10_000).await.into_iter();
        records
            .filter_map(|r| match r {
                Record::Skipped(skip) => Some(skip),
                Record::Attempt(_) => None,
            })
            .collect()
    }

    pub(super) async fn trim(&self, trim: &Trim) {
        let jobs = [trim.clone()];
        answer!("trim", self.store.trim(&jobs).await);
    }
}

impl<B: LeaseBackend> Client<B> {
    /// A scheduled claim with a long lease, and a limit that no rule reaches by accident.
    pub(super) fn scheduled(&self, slot: Slot) -> RunClaim {
        let claim = RunClaim::new(self.job.clone(), slot, Token::random(), self.instance.clone());
        RunClaim { lease: LONG, limit: Duration::from_secs(3600), ..claim }
    }

    pub(super) fn catch_up(&self, slot: Slot) -> RunClaim {
        RunClaim { kind: ClaimKind::CatchUp, ..self.scheduled(slot) }
    }

    pub(super) fn takeover(&self, slot: Slot) -> RunClaim {
        RunClaim { kind: ClaimKind::Takeover, ..self.scheduled(slot) }
    }

    pub(super) async fn claim(&self, claim: &RunClaim) -> ClaimOutcome {
        answer!("claim", self.store.claim(claim).await).value
    }

    /// Sends a claim that must win.
    pub(super) async fn win(&self, claim: &RunClaim) -> Won {
        Won::of(claim, &self.claim(claim).await)
    }

    /// Sends a claim whose slot must be decided already.
    pub(super) async fn done(&self, claim: &RunClaim) -> Status {
        match self.claim(claim).await {
            ClaimOutcome::Done { status } => status,
            other => panic!("the slot should be done, and the claim got {other:?}: {claim:?}"),
        }
    }

    /// Wins with a lease that runs out, and waits until it has.
    pub(super) async fn win_and_die(&self, claim: &RunClaim) -> Won {
        let won = self.win(&RunClaim { lease: SHORT, ..claim.clone() }).await;
        self.until_over(&won.run).await;
        won
    }

    /// Waits until the lease, or the wait, of a run is over.
    pub(super) async fn until_over(&self, run: &RunKey) {
        until("the lease is over", async || {
            self.active_run(run).await.is_none_or(|run| run.left.is_zero()).then_some(())
        })
        .await;
    }

    pub(super) async fn active(&self) -> Vec<ActiveRun> {
        let jobs = [self.job.clone()];
        answer!("active", self.store.active(&jobs).await).value
    }

    pub(super) async fn active_run(&self, run: &RunKey) -> Option<ActiveRun> {
        let mut found: Vec<_> = self.active().await.into_iter().filter(|a| a.run == *run).collect();
        assert!(found.len() <= 1, "a run is active once: {found:?}");
        found.pop()
    }

    /// How long the lease, or the wait, of an unfinished run still lasts.
    pub(super) async fn left(&self, run: &RunKey) -> Duration {
        self.active_run(run).await.expect("the run is unfinished").left
    }

    /// Nothing was decided and nothing runs.
    pub(super) async fn assert_nothing_written(&self) {
        assert_eq!(self.active().await, [], "nothing runs");
        assert_eq!(self.records(10).await, [], "nothing is recorded");
    }

    /// Holds that a call changes nothing that can be seen of the job.
    pub(super) async fn unchanged<T>(&self, call: impl AsyncFnOnce() -> T) -> T {
        let seen = async || {
            let active = self.active().await.into_iter();
            let active: Vec<_> = active.map(|a| (a.run, a.status, a.attempt, a.instance, a.left.is_zero())).collect();
            (active, self.records(10_000).await)
        };
        let before = seen().await;
        let answer = call().await;
        assert_eq!(before, seen().await, "nothing may change");
        answer
    }

    pub(super) async fn beat(&self, won: &Won, lease: Duration) -> BeatOutcome {
        self.beat_run(&won.run, won.token, lease).await
    }

    pub(super) async fn beat_run(&self, run: &RunKey, token: Token, lease: Duration) -> BeatOutcome {
        let beat = Beat::new(run.clone(), token, lease);
        answer!("heartbeat", self.store.heartbeat(&beat).await).value
    }

    pub(super) async fn finish(&self, won: &Won, ending: Ending) -> FinishOutcome {
        self.finish_with(&won.run, won.token, ending).await
    }

    /// Finishes an attempt whose end must be recorded, and gives the run's status.
    pub(super) async fn end(&self, won: &Won, ending: Ending) -> Status {
        match self.finish(won, ending).await {
            FinishOutcome::Recorded { run, .. } => run,
            FinishOutcome::Lost => panic!("the end of {won:?} should have been recorded"),
        }
    }

    pub(super) async fn release(&self, release: &Release) -> ReleaseOutcome {
        answer!("release", self.store.release(release).await).value
    }

    pub(super) async fn hand_over(&self, won: &Won) -> ReleaseOutcome {
        self.release(&Release::hand_over(won.run.clone(), won.token)).await
    }

    pub(super) async fn give_back(&self, won: &Won) -> ReleaseOutcome {
        self.release(&Release::unstarted(won.run.clone(), won.token)).await
    }

    /// The status of the attempt with this token, in history.
    pub(super) async fn status(&self, won: &Won) -> AttemptStatus {
        self.attempt(won.token).await.status.expect("a store with leases knows how an attempt stands")
    }

    /// The status that history gives the run of an attempt.
    pub(super) async fn run_status(&self, won: &Won) -> Status {
        self.attempt(won.token).await.run_status.expect("a store with leases knows how a run stands")
    }

    pub(super) async fn pause(&self, note: &str) {
        let pause = Pause::new("somebody", note);
        answer!("set_paused", self.store.set_paused(&self.job, Some(&pause)).await);
    }

    pub(super) async fn resume(&self) {
        answer!("set_paused", self.store.set_paused(&self.job, None).await);
    }

    pub(super) async fn paused(&self) -> Option<Pause> {
        answer!("paused", self.store.paused(&self.job).await)
    }
}
