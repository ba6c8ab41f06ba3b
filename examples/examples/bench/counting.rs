//! A backend that counts the calls that it passes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anarchon::backend::{Backend, JobLimits, JobRefusal, ServerInfo};
use anarchon::run::{
    ActiveRun, Beat, BeatOutcome, ClaimOutcome, Finish, FinishOutcome, ManualClaim, ManualOutcome, Pause, Record,
    Registered, Registration, Release, ReleaseOutcome, RunClaim, SlotClaim, SlotOutcome, Timed, Trim,
};
use anarchon::{BackendError, ClaimBackend, JobName, LeaseBackend};
use serde_json::{Value, json};

/// How often each call was made. A call about many things is one round trip on the
/// built-in stores, but those on brokers, where it is one or two for each thing, all under way at once.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    claim: AtomicU64,
    heartbeat: AtomicU64,
    finish: AtomicU64,
    release: AtomicU64,
    active: AtomicU64,
    other: AtomicU64,
}

/// The names under which [`Calls::figures`] has the counts.
pub(crate) const KINDS: [&str; 6] = ["claim", "heartbeat", "finish", "release", "active", "other"];

impl Calls {
    pub(crate) fn figures(&self) -> Value {
        let counts = [&self.claim, &self.heartbeat, &self.finish, &self.release, &self.active, &self.other];
        KINDS
            .iter()
            .zip(counts)
            .map(|(kind, count)| ((*kind).to_owned(), json!(count.load(Ordering::Relaxed))))
            .collect()
    }
}

#[derive(Debug)]
pub(crate) struct Counting<B> {
    store: B,
    calls: Arc<Calls>,
}

impl<B> Counting<B> {
    pub(crate) fn new(store: B) -> (Self, Arc<Calls>) {
        let calls = Arc::<Calls>::default();
        (Self { store, calls: Arc::clone(&calls) }, calls)
    }
}

fn one(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

type Answer<T> = Result<Timed<T>, BackendError>;

impl<B: Backend> Backend for Counting<B> {
    type Strength = B::Strength;

    fn name(&self) -> &str {
        self.store.name()
    }

    fn memory(&self) -> Option<Duration> {
        self.store.memory()
    }

    fn history_by_age(&self) -> bool {
        self.store.history_by_age()
    }

    fn check_job(&self, limits: &JobLimits) -> Result<(), JobRefusal> {
        self.store.check_job(limits)
    }

    async fn connect(&self) -> Result<ServerInfo, BackendError> {
        self.store.connect().await
    }

    async fn clock(&self) -> Result<Option<i64>, BackendError> {
        one(&self.calls.other);
        self.store.clock().await
    }

    async fn register(&self, jobs: &[Registration], forget_after: Duration) -> Answer<Vec<Registered>> {
        one(&self.calls.other);
        self.store.register(jobs, forget_after).await
    }

    async fn claim_manual(&self, claim: &ManualClaim) -> Answer<ManualOutcome> {
        one(&self.calls.claim);
        self.store.claim_manual(claim).await
    }

    async fn finish(&self, finish: &Finish) -> Answer<FinishOutcome> {
        one(&self.calls.finish);
        self.store.finish(finish).await
    }

    async fn finish_many(&self, finishes: &[Finish]) -> Vec<Answer<FinishOutcome>> {
        one(&self.calls.finish);
        self.store.finish_many(finishes).await
    }

    async fn history(&self, job: &JobName, limit: u32) -> Result<Vec<Record>, BackendError> {
        one(&self.calls.other);
        self.store.history(job, limit).await
    }

    async fn trim(&self, jobs: &[Trim]) -> Result<(), BackendError> {
        one(&self.calls.other);
        self.store.trim(jobs).await
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

impl<B: ClaimBackend> ClaimBackend for Counting<B> {
    async fn claim(&self, claim: &SlotClaim) -> Answer<SlotOutcome> {
        one(&self.calls.claim);
        self.store.claim(claim).await
    }

    async fn claim_many(&self, claims: &[SlotClaim]) -> Vec<Answer<SlotOutcome>> {
        one(&self.calls.claim);
        self.store.claim_many(claims).await
    }
}

impl<B: LeaseBackend> LeaseBackend for Counting<B> {
    async fn claim(&self, claim: &RunClaim) -> Answer<ClaimOutcome> {
        one(&self.calls.claim);
        self.store.claim(claim).await
    }

    async fn claim_many(&self, claims: &[RunClaim]) -> Vec<Answer<ClaimOutcome>> {
        one(&self.calls.claim);
        self.store.claim_many(claims).await
    }

    async fn heartbeat(&self, beat: &Beat) -> Answer<BeatOutcome> {
        one(&self.calls.heartbeat);
        self.store.heartbeat(beat).await
    }

    async fn heartbeat_many(&self, beats: &[Beat]) -> Vec<Answer<BeatOutcome>> {
        one(&self.calls.heartbeat);
        self.store.heartbeat_many(beats).await
    }

    async fn release(&self, release: &Release) -> Answer<ReleaseOutcome> {
        one(&self.calls.release);
        self.store.release(release).await
    }

    async fn release_many(&self, releases: &[Release]) -> Vec<Answer<ReleaseOutcome>> {
        one(&self.calls.release);
        self.store.release_many(releases).await
    }

    async fn active(&self, jobs: &[JobName]) -> Answer<Vec<ActiveRun>> {
        one(&self.calls.active);
        self.store.active(jobs).await
    }

    async fn set_paused(&self, job: &JobName, pause: Option<&Pause>) -> Result<(), BackendError> {
        one(&self.calls.other);
        self.store.set_paused(job, pause).await
    }

    async fn paused(&self, job: &JobName) -> Result<Option<Pause>, BackendError> {
        one(&self.calls.other);
        self.store.paused(job).await
    }
}
