//! `overlap`: what happens to a slot while another run of its job is live, and how skipped slots are recorded.

use std::time::Duration;

use super::Fixture;
use super::support::{Client, LONG, Won, failed};
use crate::backend::LeaseBackend;
use crate::option::Overlap;
use crate::run::{
    AttemptStatus, BeatOutcome, ClaimOutcome, Ending, ManualClaim, RunClaim, RunKey, SkipReason, SkipRecord, Status,
};
use crate::slot::Slot;

fn allow(claim: RunClaim) -> RunClaim {
    RunClaim { overlap: Overlap::Allow, ..claim }
}

/// Sends a claim that must find `blocker`, and gives how long that one's lease still lasts.
async fn blocked<B: LeaseBackend>(client: &Client<B>, claim: &RunClaim, blocker: &RunKey, recorded: bool) -> Duration {
    match client.claim(claim).await {
        ClaimOutcome::Overlap { blocker: by, left, recorded: as_skip } => {
            assert_eq!((&by, as_skip), (blocker, recorded), "for {claim:?}");
            left
        }
        other => panic!("the claim should find {blocker} in its way, and got {other:?}: {claim:?}"),
    }
}

/// A scheduled slot beside a live run is skipped, on the record, and stays so for every instance.
pub async fn a_slot_beside_a_live_run_is_skipped_for_everyone<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let live = client.win(&client.scheduled(client.ago(2000))).await;
    let claim = client.scheduled(client.ago(1000));
    let left = blocked(&client, &claim, &live.run, true).await;
    assert!(left > Duration::ZERO && left <= LONG, "the blocker's lease lasts {left:?}");
    let slower = client.other(fixture, "slower").await;
    let asked_again = [claim.clone(), slower.scheduled(claim.slot), slower.catch_up(claim.slot)];
    for again in asked_again.iter().chain([&slower.takeover(claim.slot), &allow(slower.scheduled(claim.slot))]) {
        client.unchanged(async || assert_eq!(client.done(again).await, Status::Skipped)).await;
    }
    client.end(&live, Ending::Done).await;
    assert_eq!(slower.done(&slower.scheduled(claim.slot)).await, Status::Skipped, "the first decision stands");
    assert_eq!(
        client.skips().await,
        [SkipRecord::new(client.job.clone(), claim.slot, claim.slot, 1, SkipReason::Overlap)]
    );
}

/// Under `allow`, slots run beside each other.
pub async fn under_allow_slots_run_beside_each_other<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    client.win(&allow(client.scheduled(client.ago(2000)))).await;
    client.win(&allow(client.scheduled(client.ago(1000)))).await;
    assert_eq!(client.active().await.len(), 2);
}

/// A catch-up that finds another run live records nothing, and wins once that one has ended.
pub async fn a_catch_up_beside_a_live_run_is_asked_again<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let live = client.win(&client.scheduled(client.ago(2000))).await;
    let claim = client.catch_up(client.ago(1000));
    client.unchanged(async || blocked(&client, &claim, &live.run, false).await).await;
    client.end(&live, Ending::Done).await;
    assert_eq!(client.win(&claim).await.attempt, 1);
}

/// A newer slot blocks an older one just the same.
pub async fn a_newer_live_run_blocks_an_older_slot<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let live = client.win(&client.scheduled(client.ago(1000))).await;
    blocked(&client, &client.catch_up(client.ago(2000)), &live.run, false).await;
    blocked(&client, &client.scheduled(client.ago(2000)), &live.run, true).await;
}

/// A run whose runner died, with attempts left, blocks new slots: it is about to be taken over.
pub async fn a_dead_run_that_can_be_taken_over_blocks_new_slots<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let dead = client.win_and_die(&client.scheduled(client.ago(3000))).await;
    assert_eq!(blocked(&client, &client.catch_up(client.ago(1000)), &dead.run, false).await, Duration::ZERO);
    assert_eq!(blocked(&client, &client.scheduled(client.ago(2000)), &dead.run, true).await, Duration::ZERO);
    assert_eq!(client.win(&client.takeover(dead.run.slot)).await.attempt, 2, "it can still be taken over");
}

/// So does one that was handed over or given back.
pub async fn a_released_run_blocks_new_slots<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    for name in ["handed over", "given back"] {
        let client = client.on(name);
        let won = client.win(&client.scheduled(client.ago(3000))).await;
        if name == "handed over" {
            client.hand_over(&won).await
        } else {
            client.give_back(&won).await
        };
        blocked(&client, &client.catch_up(client.ago(1000)), &won.run, false).await;
        blocked(&client, &client.scheduled(client.ago(1000)), &won.run, true).await;
    }
}

/// A run that expired or has no attempt left blocks nobody.
pub async fn an_expired_or_used_up_run_blocks_nobody<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let used_up = client.on("used up");
    let dead = used_up.win_and_die(&RunClaim { max_attempts: 1, ..used_up.scheduled(client.ago(2000)) }).await;
    used_up.win(&used_up.scheduled(client.ago(1000))).await;
    assert_eq!(used_up.run_status(&dead).await, Status::Dead);
    let expired = client.on("expired");
    let within = RunClaim { takeover_within: Duration::ZERO, ..expired.scheduled(client.ago(2000)) };
    let dead = expired.win_and_die(&within).await;
    client.pass(Duration::from_millis(2)).await;
    expired.win(&expired.scheduled(client.ago(1000))).await;
    assert_eq!(expired.run_status(&dead).await, Status::Dead);
}

/// Runs of another job block nobody.
pub async fn runs_of_other_jobs_block_nobody<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    client.win(&client.scheduled(client.ago(2000))).await;
    let other = client.on("another job");
    other.win(&other.scheduled(client.ago(1000))).await;
}

/// A run that could be taken over waits, unrecorded, while another run of its job is live.
pub async fn a_takeover_beside_a_live_run_waits<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let live = client.win(&allow(client.scheduled(client.ago(2000)))).await;
    let dead = client.win_and_die(&allow(client.scheduled(client.ago(1000)))).await;
    for claim in [client.takeover(dead.run.slot), client.scheduled(dead.run.slot), client.catch_up(dead.run.slot)] {
        client.unchanged(async || blocked(&client, &claim, &live.run, false).await).await;
    }
    assert_eq!(client.skips().await, []);
    client.end(&live, Ending::Done).await;
    assert_eq!(client.win(&client.takeover(dead.run.slot)).await.attempt, 2);
}

/// Under `allow` a takeover does not mind what else runs.
pub async fn under_allow_a_takeover_minds_nobody<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    client.win(&allow(client.scheduled(client.ago(2000)))).await;
    let dead = client.win_and_die(&allow(client.scheduled(client.ago(1000)))).await;
    assert_eq!(client.win(&allow(client.takeover(dead.run.slot))).await.attempt, 2);
}

/// Two dead runs of one job do not keep each other from being taken over: one after the other is.
pub async fn two_dead_runs_do_not_block_each_other_for_ever<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let older = client.win_and_die(&allow(client.scheduled(client.ago(2000)))).await;
    let newer = client.win_and_die(&allow(client.scheduled(client.ago(1000)))).await;
    let restarted = client.win(&client.takeover(newer.run.slot)).await;
    blocked(&client, &client.takeover(older.run.slot), &restarted.run, false).await;
    client.end(&restarted, Ending::Done).await;
    assert_eq!(client.win(&client.takeover(older.run.slot)).await.attempt, 2);
}

/// A late copy of a claim does not revive its lease beside a run that was let in since; it may once that one has ended.
pub async fn winning_again_revives_no_lease_beside_a_live_run<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let claim = client.scheduled(client.ago(1000));
    let dead = client.win_and_die(&claim).await;
    let manual = ManualClaim { exclusive: true, ..client.manual() };
    let (by_hand, _) = client.win_manual(&manual).await;
    client.unchanged(async || blocked(&client, &claim, &by_hand, false).await).await;
    assert_eq!(client.beat(&dead, LONG).await, BeatOutcome::Lost);
    client.finish_with(&by_hand, manual.token, Ending::Done).await;
    assert_eq!(client.win(&claim).await, dead);
}

/// The same with a run that waited for its retry and was started again.
pub async fn winning_again_revives_no_lease_beside_a_retry<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let retried = waiting(&client, 1000, Duration::from_millis(1)).await;
    let claim = client.catch_up(client.ago(2000));
    client.win_and_die(&claim).await;
    client.until_over(&retried.run).await;
    client.win(&client.takeover(retried.run.slot)).await;
    client.unchanged(async || blocked(&client, &claim, &retried.run, false).await).await;
    client.win(&allow(claim)).await;
}

/// A run that waits for its retry, or whose wait is over.
async fn waiting<B: LeaseBackend>(client: &Client<B>, ms: i64, wait: Duration) -> Won {
    let won = client.win(&allow(RunClaim { retry_failed: Some(wait), ..client.scheduled(client.ago(ms)) })).await;
    assert_eq!(client.end(&won, failed("no")).await, Status::Waiting);
    won
}

/// Under `skip`, a newer slot replaces older runs that wait for their retry; they end as their last attempt did.
pub async fn a_newer_slot_supersedes_waiting_runs<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let oldest = waiting(&client, 4000, LONG).await;
    let ready = waiting(&client, 3000, Duration::from_millis(1)).await;
    let newer = waiting(&client, 1000, LONG).await;
    client.until_over(&ready.run).await;
    client.win(&client.scheduled(client.ago(2000))).await;
    for old in [&oldest, &ready] {
        let record = client.attempt(old.token).await;
        assert_eq!((record.status, record.run_status), (Some(AttemptStatus::Failed), Some(Status::Failed)));
        assert_eq!((record.note.as_deref(), record.error.as_deref()), (Some("superseded"), Some("no")));
        assert_eq!(client.done(&client.takeover(old.run.slot)).await, Status::Failed);
    }
    assert_eq!(client.run_status(&newer).await, Status::Waiting, "a newer one still waits");
    assert_eq!(client.attempt(newer.token).await.note, None);
}

/// Under `allow`, waiting runs keep their retries.
pub async fn under_allow_waiting_runs_keep_their_retries<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let old = waiting(&client, 2000, Duration::from_millis(1)).await;
    client.win(&allow(client.scheduled(client.ago(1000)))).await;
    assert_eq!(client.run_status(&old).await, Status::Waiting);
    client.until_over(&old.run).await;
    assert_eq!(client.win(&allow(client.takeover(old.run.slot))).await.attempt, 2);
}

/// A skipped slot supersedes nothing: it does not run.
pub async fn a_skipped_slot_supersedes_nothing<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let old = waiting(&client, 3000, LONG).await;
    let live = client.win(&allow(client.scheduled(client.ago(2000)))).await;
    blocked(&client, &client.scheduled(client.ago(1000)), &live.run, true).await;
    assert_eq!(client.run_status(&old).await, Status::Waiting);
}

fn after(claim: RunClaim, previous: Slot) -> RunClaim {
    RunClaim { previous: Some(previous), ..claim }
}

/// Skipped slots one after the other are one record, and all of them are decided.
pub async fn skips_in_a_row_are_one_record<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let live = client.win(&client.scheduled(client.ago(9000))).await;
    let slots = [5000, 4000, 3000, 2000].map(|ms| client.ago(ms));
    let mut previous = client.ago(6000);
    for slot in slots {
        blocked(&client, &after(client.scheduled(slot), previous), &live.run, true).await;
        previous = slot;
    }
    let record = SkipRecord::new(client.job.clone(), slots[0], slots[3], 4, SkipReason::Overlap);
    assert_eq!(client.skips().await, [record]);
    for slot in slots {
        assert_eq!(client.done(&client.scheduled(slot)).await, Status::Skipped);
    }
    client.end(&live, Ending::Done).await;
    assert_eq!(client.done(&client.scheduled(client.ago(2500))).await, Status::Skipped, "all within is decided");
    client.win(&client.scheduled(client.ago(1999))).await;
}

/// A skip that does not follow the record's last slot, by the schedule of its claim, begins a new one.
pub async fn a_gap_begins_a_new_skip_record<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    client.win(&client.scheduled(client.ago(9000))).await;
    client.claim(&client.scheduled(client.ago(5000))).await;
    client.claim(&after(client.scheduled(client.ago(3000)), client.ago(4000))).await;
    client.claim(&client.scheduled(client.ago(2000))).await;
    let skips = client.skips().await;
    let counts: Vec<_> = skips.iter().map(|s| (s.first, s.last, s.count)).collect();
    assert_eq!(counts, [2000, 3000, 5000].map(|ms| (client.ago(ms), client.ago(ms), 1)), "newest first");
    assert!(skips.iter().all(|s| s.reason == SkipReason::Overlap));
    assert_eq!(client.claim(&client.takeover(client.ago(4000))).await, ClaimOutcome::Gone, "undecided between");
}

/// Another reason begins a new record.
pub async fn another_reason_begins_a_new_skip_record<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    client.win(&client.scheduled(client.ago(9000))).await;
    client.claim(&client.scheduled(client.ago(3000))).await;
    client.pause("").await;
    client.claim(&after(client.scheduled(client.ago(2000)), client.ago(3000))).await;
    client.claim(&after(client.scheduled(client.ago(1000)), client.ago(2000))).await;
    let skips: Vec<_> = client.skips().await.iter().map(|s| (s.first, s.last, s.count, s.reason)).collect();
    let paused = (client.ago(2000), client.ago(1000), 2, SkipReason::Paused);
    assert_eq!(skips, [paused, (client.ago(3000), client.ago(3000), 1, SkipReason::Overlap)]);
}

/// A run between two skipped slots, of another version's schedule, parts their records.
pub async fn a_run_between_parts_the_skip_records<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let live = client.win(&client.scheduled(client.ago(9000))).await;
    client.claim(&client.scheduled(client.ago(3000))).await;
    let between = client.win(&allow(client.scheduled(client.ago(2500)))).await;
    client.claim(&after(client.scheduled(client.ago(2000)), client.ago(3000))).await;
    assert_eq!(client.skips().await.len(), 2, "{:?}", client.skips().await);
    client.end(&between, Ending::Done).await;
    client.end(&live, Ending::Done).await;
    assert_eq!(client.done(&client.scheduled(client.ago(2500))).await, Status::Done);
    client.win(&client.scheduled(client.ago(2400))).await;
}
