//! A cluster in one process: a day in milliseconds, the same each time, and mistakes that are told.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a test fails")]

use std::collections::HashSet;
use std::time::Duration;

use anarchon::Error;
use anarchon::testing::TestCluster;

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn cluster(instances: usize, seed: u64) -> TestCluster {
    TestCluster::new(instances, seed, |instance| instance.lease("15s"))
}

#[test]
fn a_day_of_a_job_is_run_slot_by_slot_by_one_of_three() {
    let mut cluster = cluster(3, 7);
    let job = async || tokio::time::sleep(secs(2)).await;
    cluster
        .on_each(async |scheduler| scheduler.every("job", "10m", job).jitter("30s").history_size(200).add().await)
        .unwrap();
    cluster.advance(secs(24 * 3600 + 60));
    cluster.assert_each_slot_done_once("job");
    cluster.assert_never_two_at_once("job");
    let attempts = cluster.attempts("job");
    assert_eq!(attempts.len(), 6 * 24);
    let instances: HashSet<_> = attempts.iter().map(|a| &a.instance).collect();
    assert_eq!(instances.len(), 3, "each wins some");
}

#[test]
fn one_seed_gives_one_trace() {
    let trace = |seed| {
        let mut cluster = cluster(3, seed);
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
    let mut cluster = cluster(1, 7);
    let job = async || tokio::time::sleep(secs(5)).await;
    cluster.on_each(async |scheduler| scheduler.every("job", "1m", job).add().await).unwrap();
    drop(cluster.on(0, async |scheduler| scheduler.run_now("job").await.unwrap().finished().await));
}
