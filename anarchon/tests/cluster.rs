//! What happens to instances that crash, freeze, lose their store, stop and come back, on a cluster in one process.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a test fails")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anarchon::testing::TestCluster;
use anarchon::{AttemptStatus, CancelReason, Context, Error, Event, Overlap, Reason};

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// What handlers did at last, and on which instance.
#[derive(Clone, Default)]
struct Handled(Arc<Mutex<Vec<Last>>>);

/// The instance, and why the handler was cancelled if it was.
type Last = (String, Option<CancelReason>);

impl Handled {
    async fn handle(self, ctx: Context, work: Duration) -> Result<(), String> {
        let cancelled = tokio::select! {
            () = tokio::time::sleep(work) => None,
            reason = ctx.cancelled() => Some(reason),
        };
        self.0.lock().unwrap().push((ctx.instance_id().to_string(), cancelled));
        cancelled.map_or(Ok(()), |reason| Err(reason.to_string()))
    }

    fn cancelled(&self) -> Vec<(String, CancelReason)> {
        self.0.lock().unwrap().iter().filter_map(|(on, reason)| Some((on.clone(), (*reason)?))).collect()
    }

    fn ended(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().filter(|(_, reason)| reason.is_none()).map(|(on, _)| on.clone()).collect()
    }
}

fn cluster(instances: usize) -> TestCluster {
    TestCluster::new(instances, 7, |instance| instance.lease("15s").stop_grace("5s"))
}

fn add_job(cluster: &mut TestCluster, work: Duration, attempts: u32) -> Handled {
    let handled = Handled::default();
    let add = |cluster: &mut TestCluster| {
        cluster.on_each(async |scheduler| {
            let handled = handled.clone();
            let handler = move |ctx: Context| handled.clone().handle(ctx, work);
            let job = scheduler.every("job", "1m", handler).jitter("0s").overlap(Overlap::Skip);
            job.max_attempts(attempts).catch_up("10m").add().await
        })
    };
    add(cluster).unwrap();
    handled
}

/// Lets the next slot begin; returns who runs it.
fn begin(cluster: &mut TestCluster) -> usize {
    cluster.advance_to_next("job");
    cluster.advance(secs(1));
    cluster.running("job").expect("somebody runs it")
}

#[test]
fn a_day_of_a_job_is_run_slot_by_slot_by_one_of_three() {
    let mut cluster = cluster(3);
    let job = async || tokio::time::sleep(secs(2)).await;
    cluster
        .on_each(async |scheduler| scheduler.every("job", "10m", job).jitter("30s").history_size(200).add().await)
        .unwrap();
    cluster.advance(secs(24 * 3600 + 60));
    cluster.assert_each_slot_done_once("job");
    cluster.assert_never_two_at_once("job");
    let attempts = cluster.attempts("job");
    assert_eq!(attempts.len(), 6 * 24);
    let instances: std::collections::HashSet<_> = attempts.iter().map(|a| &a.instance).collect();
    assert_eq!(instances.len(), 3, "each wins some");
}

#[test]
fn one_that_is_killed_is_followed_within_its_lease_and_a_second() {
    let mut cluster = cluster(3);
    add_job(&mut cluster, secs(20), 2);
    let winner = begin(&mut cluster);
    cluster.kill(winner);
    cluster.advance(secs(50));
    let attempts = cluster.attempts("job");
    let [first, second] = &attempts[..] else { panic!("{attempts:?}") };
    assert_eq!((first.status, second.status), (Some(AttemptStatus::Lost), Some(AttemptStatus::Done)));
    assert_eq!((second.attempt, second.reason), (2, Reason::Takeover));
    let waited = second.claimed_at - first.claimed_at;
    assert!((15_000..=16_000).contains(&waited), "{waited} ms after the claim");
    cluster.assert_never_two_at_once("job");
}

#[test]
fn one_with_a_single_attempt_is_not_followed() {
    let mut cluster = cluster(2);
    add_job(&mut cluster, secs(20), 1);
    let winner = begin(&mut cluster);
    cluster.kill(winner);
    cluster.advance(secs(50));
    assert_eq!(cluster.attempts("job").len(), 1);
}

#[test]
fn one_that_is_frozen_past_its_lease_is_dropped_when_it_wakes_and_changes_nothing() {
    let mut cluster = cluster(2);
    let handled = add_job(&mut cluster, secs(30), 2);
    let winner = begin(&mut cluster);
    cluster.freeze(winner);
    cluster.advance(secs(20));
    cluster.events(winner);
    cluster.thaw(winner);
    cluster.advance(secs(30));
    let attempts = cluster.attempts("job");
    let told: Vec<_> = attempts.iter().map(|a| (a.attempt, a.status)).collect();
    assert_eq!(told, [(1, Some(AttemptStatus::Lost)), (2, Some(AttemptStatus::Done))]);
    assert_eq!(handled.ended(), [if winner == 0 { "1" } else { "0" }]);
    let events = cluster.events(winner);
    assert!(events.iter().any(|event| matches!(event, Event::LeaseLost { .. })), "{events:?}");
}

#[test]
fn one_that_is_cut_off_the_store_is_cancelled_before_another_begins() {
    let mut cluster = cluster(2);
    let handled = add_job(&mut cluster, secs(40), 2);
    let winner = begin(&mut cluster);
    cluster.cut_off(winner);
    cluster.advance(secs(14));
    assert_eq!(handled.cancelled(), [(winner.to_string(), CancelReason::LeaseLost)], "while nobody else may begin");
    assert_eq!(cluster.attempts("job").len(), 1);
    cluster.advance(secs(3));
    assert_eq!(cluster.attempts("job").len(), 2);
    cluster.heal(winner);
    cluster.advance(secs(60));
    cluster.assert_never_two_at_once("job");
}

#[test]
fn one_that_stops_hands_its_run_over_and_the_other_begins_at_once() {
    let mut cluster = cluster(2);
    let handled = add_job(&mut cluster, secs(30), 2);
    let winner = begin(&mut cluster);
    cluster.stop(winner).unwrap();
    cluster.advance(secs(50));
    assert_eq!(handled.cancelled(), [(winner.to_string(), CancelReason::Stop)]);
    let attempts = cluster.attempts("job");
    let [first, second] = &attempts[..] else { panic!("{attempts:?}") };
    assert_eq!((first.status, second.reason), (Some(AttemptStatus::HandedOver), Reason::HandOver));
    let waited = second.claimed_at - first.ended_at.unwrap();
    assert!(waited <= 5_500, "{waited} ms: a watch and half a second");
    cluster.assert_never_two_at_once("job");
}

#[test]
fn a_run_whose_instances_were_all_killed_is_run_again_once_they_are_back() {
    let mut cluster = cluster(2);
    add_job(&mut cluster, secs(5), 2);
    begin(&mut cluster);
    cluster.kill(0);
    cluster.kill(1);
    cluster.advance(secs(20));
    cluster.start(0);
    cluster.start(1);
    add_job(&mut cluster, secs(5), 2);
    cluster.advance(secs(20));
    let attempts = cluster.attempts("job");
    let told: Vec<_> = attempts.iter().map(|a| (a.attempt, a.status)).collect();
    assert_eq!(told, [(1, Some(AttemptStatus::Lost)), (2, Some(AttemptStatus::Done))]);
}

#[test]
fn a_slot_that_fell_due_while_all_were_down_is_caught_up_with_once() {
    let mut cluster = cluster(2);
    add_job(&mut cluster, secs(1), 1);
    begin(&mut cluster);
    cluster.advance(secs(10));
    cluster.kill(0);
    cluster.kill(1);
    cluster.advance(secs(170));
    cluster.start(0);
    cluster.start(1);
    add_job(&mut cluster, secs(1), 1);
    cluster.advance(secs(30));
    let attempts = cluster.attempts("job");
    assert_eq!(attempts.iter().filter(|a| a.reason == Reason::CatchUp).count(), 1, "{attempts:?}");
    cluster.assert_each_slot_done_once("job");
}

#[test]
fn one_seed_gives_one_trace() {
    let trace = |seed| {
        let mut cluster = TestCluster::new(3, seed, |instance| instance.lease("15s"));
        cluster.on_each::<Error>(async |scheduler| scheduler.every("job", "1m", async || {}).add().await).unwrap();
        cluster.advance(secs(3600));
        let attempts = cluster.attempts("job");
        attempts.into_iter().map(|a| (a.run.slot, a.instance, a.token, a.claimed_at)).collect::<Vec<_>>()
    };
    assert_eq!(trace(1), trace(1));
    assert_ne!(trace(1), trace(2));
}

#[test]
#[should_panic(expected = "waits for time to pass")]
fn a_call_that_waits_for_time_is_told_so() {
    let mut cluster = cluster(1);
    add_job(&mut cluster, secs(5), 1);
    drop(cluster.on(0, async |scheduler| scheduler.run_now("job").await.unwrap().finished().await));
}
