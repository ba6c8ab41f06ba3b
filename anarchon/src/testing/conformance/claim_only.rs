//! Stores that can only say who was first.
//!
//! What needs the store's clock is left out for a store that has none. Slots of one job are claimed from older to
//! newer, since a store may refuse one that is older than its last.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Fixture;
use super::support::{Client, answer, failed, instance, until};
use crate::backend::{Backend, ClaimBackend, JobLimits};
use crate::clock::to_ms;
use crate::option::Retention;
use crate::run::{
    AttemptStatus, Ending, FinishOutcome, ManualClaim, ManualOutcome, Reason, Record, RunKey, SlotClaim, SlotOutcome,
    Status,
};
use crate::slot::{JobName, Slot, Token};

impl<B: ClaimBackend> Client<B> {
    fn slot_claim(&self, slot: Slot) -> SlotClaim {
        let claim = SlotClaim::new(self.job.clone(), slot, Token::random(), self.instance.clone());
        SlotClaim { limit: Duration::from_secs(3600), ..claim }
    }

    async fn claim_slot(&self, claim: &SlotClaim) -> SlotOutcome {
        answer!("claim", self.store.claim(claim).await).value
    }

    async fn win_slot(&self, slot: Slot) -> SlotClaim {
        let claim = self.slot_claim(slot);
        assert_eq!(self.claim_slot(&claim).await, SlotOutcome::Won, "{claim:?}");
        claim
    }

    async fn finish_slot(&self, claim: &SlotClaim, ending: Ending) -> FinishOutcome {
        self.finish_with(&RunKey::scheduled(claim.job.clone(), claim.slot), claim.token, ending).await
    }

    async fn has_clock(&self) -> bool {
        answer!("clock", self.store.clock().await).is_some()
    }
}

/// The first token wins, another finds the slot taken.
pub async fn the_first_token_wins<F: Fixture<Backend: ClaimBackend>>(fixture: &F) {
    let here = Client::new(fixture).await;
    let there = here.other(fixture, "there").await;
    let claim = here.win_slot(here.ago(100)).await;
    for client in [&there, &here] {
        assert_eq!(client.claim_slot(&client.slot_claim(claim.slot)).await, SlotOutcome::Taken);
    }
}

/// The winner's token wins again whenever it is sent again, from anywhere, also once the run has ended.
pub async fn the_winners_token_wins_again<F: Fixture<Backend: ClaimBackend>>(fixture: &F) {
    let here = Client::new(fixture).await;
    let there = here.other(fixture, "there").await;
    let claim = here.win_slot(here.ago(100)).await;
    for _ in 0..2 {
        assert_eq!(here.claim_slot(&claim).await, SlotOutcome::Won);
        assert_eq!(there.claim_slot(&claim).await, SlotOutcome::Won);
        assert_eq!(there.claim_slot(&there.slot_claim(claim.slot)).await, SlotOutcome::Taken);
        here.finish_slot(&claim, Ending::Done).await;
    }
    assert_eq!(here.attempts().await.len(), 1, "and is one run");
}

/// Slots and jobs have nothing to do with each other.
pub async fn slots_and_jobs_are_decided_apart<F: Fixture<Backend: ClaimBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    for name in ["sync", "Sync", "sync0", "sync_", "sync-"] {
        let client = client.on(name);
        for ms in [102, 101, 100] {
            client.win_slot(client.ago(ms)).await;
        }
    }
}

/// Of many claimants over several clients, each slot has one winner.
pub async fn every_slot_has_exactly_one_winner<F: Fixture<Backend: ClaimBackend>>(fixture: &F) {
    let first = Client::new(fixture).await;
    let slots: Vec<_> = (0..20).map(|n| first.ago(1000 - n)).collect();
    let start = Arc::new(tokio::sync::Barrier::new(8));
    let mut tasks = Vec::new();
    for n in 0..8 {
        let client = first.other(fixture, &format!("instance-{n}")).await;
        let (slots, start) = (slots.clone(), Arc::clone(&start));
        tasks.push(tokio::spawn(async move {
            start.wait().await;
            let mut wins = Vec::new();
            for slot in slots {
                let claim = client.slot_claim(slot);
                match client.claim_slot(&claim).await {
                    SlotOutcome::Won => wins.push((slot, claim.token)),
                    SlotOutcome::Taken => {}
                    other => panic!("won or taken, but {other:?}"),
                }
            }
            wins
        }));
    }
    let mut wins = Vec::new();
    for task in tasks {
        wins.extend(task.await.expect("a racer"));
    }
    wins.sort();
    assert_eq!(wins.iter().map(|(slot, _)| *slot).collect::<Vec<_>>(), slots, "one winner each");
    let told: HashSet<_> = first.attempts().await.into_iter().map(|a| (a.run.slot, a.token)).collect();
    assert_eq!(told, wins.into_iter().collect());
}

/// Copies of one claim that race each other all win.
pub async fn copies_of_one_claim_win_together<F: Fixture<Backend: ClaimBackend>>(fixture: &F) {
    let first = Client::new(fixture).await;
    for n in 0..6 {
        let claim = first.slot_claim(first.ago(100 - n));
        let mut tasks = Vec::new();
        for _ in 0..4 {
            let (client, claim) = (first.other(fixture, "there").await, claim.clone());
            tasks.push(tokio::spawn(async move { client.claim_slot(&claim).await }));
        }
        for task in tasks {
            assert_eq!(task.await.expect("a racer"), SlotOutcome::Won);
        }
    }
    assert_eq!(first.attempts().await.len(), 6);
}

/// A slot later than the store's clock is early, and won by the same token once it has come.
pub async fn a_slot_in_the_future_is_early<F: Fixture<Backend: ClaimBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    if !client.has_clock().await {
        return;
    }
    match client.claim_slot(&client.slot_claim(client.ago(-3_600_000))).await {
        SlotOutcome::Early(wait) => assert!(wait > Duration::from_secs(3000) && wait <= Duration::from_secs(3600)),
        other => panic!("the slot is early, but {other:?}"),
    }
    let claim = client.slot_claim(client.ago(-300));
    until("the slot has come", async || match client.claim_slot(&claim).await {
        SlotOutcome::Early(_) => None,
        SlotOutcome::Won => Some(()),
        other => panic!("first early, then won, but {other:?}"),
    })
    .await;
    assert!(client.now().await >= claim.slot.ms(), "not before its time");
}

/// A slot older than the claim's limit is late and undecided.
pub async fn a_slot_older_than_the_limit_is_late<F: Fixture<Backend: ClaimBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    if !client.has_clock().await {
        return;
    }
    let claim = client.slot_claim(client.ago(1500));
    let late = SlotClaim { limit: Duration::from_secs(1), ..claim.clone() };
    assert_eq!(client.claim_slot(&late).await, SlotOutcome::Late);
    assert_eq!(client.records(10).await, []);
    assert_eq!(client.claim_slot(&claim).await, SlotOutcome::Won);
}

/// A slot that the store would have forgotten by now can't be won: nobody knows who ran it.
pub async fn a_slot_beyond_the_stores_memory_is_late<F: Fixture<Backend: ClaimBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let (true, Some(memory)) = (client.has_clock().await, client.store.memory()) else {
        return;
    };
    let slot = client.ago(to_ms(memory) + 1000);
    let claim = SlotClaim { limit: memory * 2, ..client.slot_claim(slot) };
    assert_eq!(client.claim_slot(&claim).await, SlotOutcome::Late);
    assert_eq!(client.records(10).await, []);
}

/// A packet that comes after its `valid_until` is refused and decides nothing.
pub async fn a_stale_claim_is_refused<F: Fixture<Backend: ClaimBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    if !client.has_clock().await {
        return;
    }
    let claim = client.slot_claim(client.ago(100));
    let stale = SlotClaim { valid_until: client.start - 1, ..claim.clone() };
    assert_eq!(client.claim_slot(&stale).await, SlotOutcome::Stale);
    assert_eq!(client.records(10).await, []);
    assert_eq!(client.claim_slot(&claim).await, SlotOutcome::Won);
    let stale = ManualClaim { valid_until: client.start - 1, ..client.manual() };
    assert_eq!(client.claim_manual(&stale).await, ManualOutcome::Late);
    assert_eq!(client.attempts().await.len(), 1);
}

/// Many newer slots, of this job and others, push no decided one out of the store's memory, whatever the history keeps.
pub async fn newer_slots_push_none_out<F: Fixture<Backend: ClaimBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let first = client.win_slot(client.ago(500)).await;
    // As many as fit well into the store's memory.
    let (begun, half) = (Instant::now(), client.store.memory().map(|memory| memory / 2));
    for n in 0..200 {
        if half.is_some_and(|half| begun.elapsed() > half) {
            break;
        }
        let client = if n % 4 == 3 { client.on("another-job") } else { client.clone() };
        let claim = SlotClaim { retention: Retention::new(2, None), ..client.slot_claim(client.ago(400 - n)) };
        assert_eq!(client.claim_slot(&claim).await, SlotOutcome::Won);
    }
    assert_eq!(client.claim_slot(&client.slot_claim(first.slot)).await, SlotOutcome::Taken);
    assert_eq!(client.claim_slot(&first).await, SlotOutcome::Won);
}

/// A decided slot is remembered for as long as the store says, from the slot on. Of a window longer than ten seconds
/// only the beginning is waited for.
pub async fn a_slot_is_remembered_as_long_as_declared<F: Fixture<Backend: ClaimBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let window = client.store.memory().map_or(i64::MAX, to_ms);
    let watched = if window > 10_000 { 300 } else { window };
    let claim = client.win_slot(client.ago(10)).await;
    until("the window is over", async || {
        client.claim_slot(&client.slot_claim(Slot::from_ms(client.now().await))).await;
        let other = client.claim_slot(&client.slot_claim(claim.slot)).await;
        assert_ne!(other, SlotOutcome::Won, "no second winner, ever");
        let over = client.now().await >= claim.slot.ms() + watched;
        assert!(over || other == SlotOutcome::Taken, "taken until the window is over, but {other:?}");
        over.then_some(())
    })
    .await;
}

/// A claim and the end of its run come back as one record.
pub async fn history_joins_claims_and_results<F: Fixture<Backend: ClaimBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let open = client.win_slot(client.ago(400)).await;
    let endings = [
        (300, Ending::Done, AttemptStatus::Done, Status::Done),
        (200, failed("it's \"no\" 🦀; --"), AttemptStatus::Failed, Status::Failed),
        (100, Ending::TimedOut("slow".to_owned()), AttemptStatus::TimedOut, Status::TimedOut),
    ];
    for (n, (ms, ending, status, run)) in endings.into_iter().enumerate() {
        let client = Client { instance: instance(&format!("instance-{n}")), ..client.clone() };
        let claim = client.win_slot(client.ago(ms)).await;
        let answer = client.finish_slot(&claim, ending.clone()).await;
        assert_eq!(answer, FinishOutcome::Recorded { run, retry_in: None });
        let record = client.attempt(claim.token).await;
        assert_eq!(record.run, RunKey::scheduled(client.job.clone(), claim.slot));
        assert_eq!((record.attempt, record.reason, record.fence), (1, Reason::Scheduled, None));
        assert_eq!((record.status, record.error.as_deref()), (Some(status), ending.error()));
        assert_eq!(record.instance, client.instance.as_str());
        assert!(record.ended_at.is_some_and(|at| at >= record.claimed_at));
    }
    let record = client.attempt(open.token).await;
    assert_eq!((record.status, record.ended_at, record.error), (None, None, None), "no result yet");
    let slots = async |limit| -> Vec<_> { client.records(limit).await.iter().map(Record::slot).collect() };
    let newest = [100, 200, 300, 400].map(|ms| client.ago(ms));
    assert_eq!(slots(10).await, newest);
    assert_eq!(slots(2).await, newest[..2]);
    assert_eq!(client.on("another-job").records(10).await, []);
}

/// An end that is sent twice is recorded once.
pub async fn a_finish_sent_twice_is_recorded_once<F: Fixture<Backend: ClaimBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let claim = client.win_slot(client.ago(100)).await;
    let recorded = FinishOutcome::Recorded { run: Status::Failed, retry_in: None };
    assert_eq!(client.finish_slot(&claim, failed("no")).await, recorded);
    let told = client.attempt(claim.token).await;
    client.pass(Duration::from_millis(3)).await;
    for _ in 0..2 {
        assert_eq!(client.finish_slot(&claim, failed("no")).await, recorded);
        assert_eq!(client.attempt(claim.token).await, told);
    }
}

/// Error texts come back word for word.
pub async fn error_texts_come_back_word_for_word<F: Fixture<Backend: ClaimBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    for (n, text) in (0..).zip(super::history::texts()) {
        let claim = client.win_slot(client.ago(100 - n)).await;
        client.finish_slot(&claim, failed(&text)).await;
        assert_eq!(client.attempt(claim.token).await.error.as_deref(), Some(text.as_str()));
    }
}

/// Manual runs are not de-duplicated against slots or each other; the same packet twice is one run.
pub async fn manual_runs_touch_no_slot<F: Fixture<Backend: ClaimBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let mut runs = HashSet::new();
    for exclusive in [false, false] {
        let claim = ManualClaim { exclusive, ..client.manual() };
        let (run, fence) = client.win_manual(&claim).await;
        assert_eq!(fence, None, "a store without leases gives no fence");
        assert_eq!(client.win_manual(&claim).await.0, run);
        client.finish_with(&run, claim.token, Ending::Done).await;
        let record = client.attempt(claim.token).await;
        assert_eq!((record.run.manual, record.reason), (Some(claim.token), Reason::Manual));
        assert_eq!(record.status, Some(AttemptStatus::Done));
        runs.insert(run);
    }
    assert_eq!((runs.len(), client.attempts().await.len()), (2, 2));
    let slot = runs.iter().map(|run| run.slot).max().expect("two runs");
    client.pass(Duration::from_millis(1)).await;
    client.win_slot(slot).await;
}

/// History keeps the newest of each job, at least as many as its size says.
pub async fn history_keeps_the_newest<F: Fixture<Backend: ClaimBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let mut tokens = Vec::new();
    for n in 0..10 {
        let claim = SlotClaim { retention: Retention::new(4, None), ..client.slot_claim(client.ago(100 - n)) };
        assert_eq!(client.claim_slot(&claim).await, SlotOutcome::Won);
        client.finish_slot(&claim, Ending::Done).await;
        tokens.insert(0, claim.token);
    }
    let kept: Vec<_> = client.attempts().await.iter().map(|a| a.token).take(4).collect();
    assert_eq!(kept, tokens[..4]);
}

/// Many claims are answered as one at a time, in their order.
pub async fn many_claims_are_answered_as_one_at_a_time<F: Fixture<Backend: ClaimBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    assert!(client.store.claim_many(&[]).await.is_empty());
    let (mut claims, mut expected) = (Vec::new(), Vec::new());
    for n in 0..100 {
        let client = client.on(&format!("job-{n:03}"));
        let (claim, outcome) = match n % 3 {
            0 => (client.slot_claim(client.ago(100)), SlotOutcome::Won),
            1 => (client.win_slot(client.ago(100)).await, SlotOutcome::Won),
            _ => (client.slot_claim(client.win_slot(client.ago(100)).await.slot), SlotOutcome::Taken),
        };
        claims.push(claim);
        expected.push(outcome);
    }
    for _ in 0..2 {
        assert_eq!(super::many::values(client.store.claim_many(&claims).await), expected);
    }
    let finishes: Vec<_> = claims
        .iter()
        .map(|claim| {
            client.finish_of(&RunKey::scheduled(claim.job.clone(), claim.slot), claim.token, failed(claim.job.as_str()))
        })
        .step_by(3)
        .collect();
    let recorded = FinishOutcome::Recorded { run: Status::Failed, retry_in: None };
    assert_eq!(super::many::values(client.store.finish_many(&finishes).await), vec![recorded; finishes.len()]);
    for claim in claims.iter().step_by(3) {
        let record = client.on(claim.job.as_str()).attempt(claim.token).await;
        assert_eq!(record.error.as_deref(), Some(claim.job.as_str()));
    }
}

/// Registration answers in order and undoes nothing; connecting again keeps everything.
pub async fn registering_and_connecting_again_undo_nothing<F: Fixture<Backend: ClaimBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let claim = client.win_slot(client.ago(100)).await;
    client.register("every 1s", "every 1s, 2025b").await;
    let other = client.other(fixture, "other").await;
    other.register("every 2s", "every 2s, 2025b").await;
    answer!("connect", client.store.connect().await);
    assert_eq!(other.claim_slot(&other.slot_claim(claim.slot)).await, SlotOutcome::Taken);
    assert_eq!(client.claim_slot(&claim).await, SlotOutcome::Won);
    other.store.close().await;
    assert_eq!(client.claim_slot(&claim).await, SlotOutcome::Won, "closing one client leaves the others be");
}

/// A store refuses a job whose slots it would forget too soon no later than when it is added: its memory is declared.
pub async fn memory_is_declared_and_plain_names_are_taken<F: Fixture<Backend: ClaimBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    assert!(client.store.memory().is_none_or(|memory| memory > Duration::ZERO));
    assert!(!client.store.name().is_empty());
    for name in ["sync", "Sync", "sync0", "sync_", "sync-"] {
        let job = JobName::new(name).expect("a name");
        let limits = JobLimits::new(job, Duration::from_millis(1), Duration::from_millis(1), None);
        assert_eq!(client.store.check_job(&limits), Ok(()), "{name}");
    }
}
