//! Every metric is recorded by what it is there to show, and no other scenario is needed to see it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that fails panics")]

use std::sync::Arc;
use std::time::Duration;

use anarchon::testing::{Fault, FaultyBackend, ManualClock, TestCluster, Verb};
use anarchon::{Context, MemoryBackend, Overlap, Scheduler};
use metrics_util::MetricKind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// What was recorded since the last time: kind, name and labels, value.
struct Recorded(Vec<(MetricKind, String, DebugValue)>);

impl Recorded {
    fn take(snapshotter: &Snapshotter) -> Self {
        let all = snapshotter.snapshot().into_vec().into_iter();
        let recorded = all.map(|(key, unit, description, value)| {
            let name = key.key().name();
            assert!(name.starts_with("anarchon_"), "{name}");
            assert!(unit.is_some() && description.is_some(), "{name} was described");
            let mut labels: Vec<String> =
                key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            labels.sort_unstable();
            (key.kind(), format!("{name}{{{}}}", labels.join(",")), value)
        });
        Self(recorded.collect())
    }

    fn find(&self, kind: MetricKind, what: &str) -> Option<&DebugValue> {
        self.0.iter().find(|(its, name, _)| *its == kind && name == what).map(|(_, _, value)| value)
    }

    /// Of all instances together; 0 when nothing was recorded.
    fn counter(&self, what: &str) -> u64 {
        match self.find(MetricKind::Counter, what) {
            Some(DebugValue::Counter(count)) => *count,
            _ => 0,
        }
    }

    fn gauge(&self, what: &str) -> Option<f64> {
        match self.find(MetricKind::Gauge, what) {
            Some(DebugValue::Gauge(value)) => Some(value.into_inner()),
            _ => None,
        }
    }

    fn histogram(&self, what: &str) -> Vec<f64> {
        match self.find(MetricKind::Histogram, what) {
            Some(DebugValue::Histogram(values)) => values.iter().map(|value| value.into_inner()).collect(),
            _ => Vec::new(),
        }
    }
}

/// A cluster whose instances record to this thread's recorder: they run on it.
fn recorded<R>(play: impl FnOnce(&Snapshotter) -> R) -> R {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || play(&snapshotter))
}

fn two() -> TestCluster {
    TestCluster::new(2, 7, |instance| instance.lease("15s"))
}

async fn long_job(scheduler: &Scheduler<anarchon::testing::TestStore>) -> Result<(), anarchon::Error> {
    let handler = async || tokio::time::sleep(secs(60)).await;
    scheduler.every("job", "1h", handler).jitter("0s").max_attempts(5).add().await
}

#[test]
fn runs_are_counted_and_timed() {
    recorded(|snapshotter| {
        let mut cluster = two();
        cluster.on_each(async |scheduler| long_job(&scheduler).await).unwrap();
        cluster.advance_to_next("job");
        cluster.advance(secs(1));
        let now = Recorded::take(snapshotter);
        assert_eq!(now.counter("anarchon_claims_total{job=job,outcome=won}"), 1);
        assert_eq!(now.counter("anarchon_claims_total{job=job,outcome=lost}"), 1);
        let late = now.histogram("anarchon_lateness_seconds{job=job}");
        assert!(matches!(late[..], [late] if late < 0.2), "{late:?}");
        assert!(now.gauge("anarchon_runs_under_way{}").is_some());
        assert_eq!(now.gauge("anarchon_clock_offset_seconds{}"), Some(0.0));
        cluster.advance(secs(60));
        let then = Recorded::take(snapshotter);
        let took = then.histogram("anarchon_run_duration_seconds{job=job,outcome=done}");
        assert!(matches!(took[..], [took] if (60.0..60.5).contains(&took)), "{took:?}");
        assert_eq!(then.histogram("anarchon_lateness_seconds{job=job}"), [0.0; 0], "one run is late once");
    });
}

#[test]
fn the_gauge_of_runs_follows_them() {
    recorded(|snapshotter| {
        let mut cluster = TestCluster::new(1, 7, |instance| instance);
        cluster.on_each(async |scheduler| long_job(&scheduler).await).unwrap();
        let gauge = || Recorded::take(snapshotter).gauge("anarchon_runs_under_way{}");
        assert_eq!(gauge(), Some(0.0));
        cluster.advance_to_next("job");
        cluster.advance(secs(5));
        assert_eq!(gauge(), Some(1.0));
        cluster.advance(secs(60));
        assert_eq!(gauge(), Some(0.0));
    });
}

#[test]
fn a_lost_lease_a_takeover_and_the_errors_of_a_store_are_counted() {
    recorded(|snapshotter| {
        let mut cluster = two();
        cluster.on_each(async |scheduler| long_job(&scheduler).await).unwrap();
        cluster.advance_to_next("job");
        cluster.advance(secs(1));
        let winner = cluster.running("job").unwrap();
        cluster.cut_off(winner);
        cluster.advance(secs(30));
        let recorded = Recorded::take(snapshotter);
        assert_eq!(recorded.counter("anarchon_lease_losses_total{job=job}"), 1);
        assert_eq!(recorded.counter("anarchon_takeovers_total{job=job}"), 1);
        assert_eq!(recorded.counter("anarchon_claims_total{job=job,outcome=won}"), 2, "the takeover is one");
        assert_eq!(recorded.histogram("anarchon_lateness_seconds{job=job}").len(), 1, "a takeover is not late");
        assert!(
            recorded.counter("anarchon_store_errors_total{backend=faulty,kind=unknown}") > 1,
            "each, not the first"
        );
    });
}

#[test]
fn a_retry_and_how_attempts_end_are_counted() {
    recorded(|snapshotter| {
        let mut cluster = TestCluster::new(1, 7, |instance| instance);
        let add = async |scheduler: Scheduler<_>| {
            let fails = async |ctx: Context| if ctx.attempt() == 1 { Err("no") } else { Ok(()) };
            scheduler.every("fails", "1h", fails).jitter("0s").retry_failed("1s").add().await?;
            let hangs = async || std::future::pending::<()>().await;
            scheduler.every("hangs", "1h", hangs).jitter("0s").timeout("5s").max_attempts(1).add().await?;
            scheduler.every("goes on", "1h", hangs).jitter("0s").add().await
        };
        cluster.on(0, add).unwrap();
        cluster.advance_to_next("fails");
        cluster.advance(secs(20));
        cluster.stop(0).unwrap();
        let recorded = Recorded::take(snapshotter);
        assert_eq!(recorded.counter("anarchon_retries_total{job=fails}"), 1);
        for (job, outcome) in
            [("fails", "failed"), ("fails", "done"), ("hangs", "timed_out"), ("goes on", "handed_over")]
        {
            let what = format!("anarchon_run_duration_seconds{{job={job},outcome={outcome}}}");
            assert_eq!(recorded.histogram(&what).len(), 1, "{what}");
        }
    });
}

#[test]
fn slots_that_are_not_run_are_counted() {
    recorded(|snapshotter| {
        let mut cluster = TestCluster::new(1, 7, |instance| instance);
        let add = async |scheduler: Scheduler<_>| {
            let long = async || tokio::time::sleep(secs(25)).await;
            scheduler.every("long", "10s", long).jitter("0s").overlap(Overlap::Skip).add().await?;
            scheduler.every("paused", "10s", async || {}).jitter("0s").add().await?;
            scheduler.pause("paused", "a test").await
        };
        cluster.on(0, add).unwrap();
        cluster.advance(secs(25));
        let recorded = Recorded::take(snapshotter);
        assert_eq!(recorded.counter("anarchon_claims_total{job=long,outcome=overlap}"), 1);
        assert_eq!(recorded.counter("anarchon_claims_total{job=paused,outcome=paused}"), 2);
        assert_eq!(recorded.counter("anarchon_missed_slots_total{job=paused}"), 0);
        cluster.freeze(0);
        cluster.advance(secs(60));
        cluster.thaw(0);
        let recorded = Recorded::take(snapshotter);
        assert_eq!(recorded.counter("anarchon_missed_slots_total{job=paused}"), 1, "several at once are one");
    });
}

#[test]
fn claims_that_were_never_answered_are_counted() {
    recorded(|snapshotter| {
        let mut cluster = TestCluster::new(1, 7, |instance| instance);
        let add = async |scheduler: Scheduler<_>| {
            scheduler.every("job", "1h", async || {}).jitter("0s").max_late("5s").catch_up("0s").add().await
        };
        cluster.on(0, add).unwrap();
        cluster.advance(secs(3595));
        cluster.cut_off(0);
        cluster.advance(secs(60));
        let recorded = Recorded::take(snapshotter);
        assert_eq!(recorded.counter("anarchon_claims_total{job=job,outcome=unclear}"), 1);
        cluster.heal(0);
    });
}

#[tokio::test]
async fn a_claim_whose_answer_came_too_late_to_start_it_is_counted() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _recorded = metrics::set_default_local_recorder(&recorder);
    let clock = ManualClock::new(1_768_471_200_000);
    let store = FaultyBackend::new(MemoryBackend::with_clock(Arc::new(clock.clone())));
    let scheduler = Scheduler::builder(store.clone()).clock(Arc::new(clock.clone())).seed(7).on_callers_runtime();
    let scheduler = scheduler.start().await.unwrap();
    scheduler.every("job", "1h", async || {}).jitter("0s").add().await.unwrap();
    clock.advance(secs(3599)).await;
    store.fail_next(Verb::Claim, Fault::HoldReply);
    clock.advance(secs(1)).await;
    clock.freeze_while(secs(20), || store.let_go()).await;
    let recorded = Recorded::take(&snapshotter);
    assert_eq!(recorded.counter("anarchon_claims_total{job=job,outcome=returned}"), 1);
}
