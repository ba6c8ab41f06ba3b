use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anarchon::{AttemptStatus, Context, Event, Reason, Status};

use crate::world::{Log, World, at, ms, secs, work};

#[tokio::test]
async fn a_failed_attempt_is_retried_with_a_doubling_wait_until_attempts_are_used_up() {
    let (world, log) = (World::new(), Log::default());
    let (a, b) = (world.instance("a").await, world.instance("b").await);
    for i in [&a, &b] {
        let (log, clock) = (log.clone(), world.clock.clone());
        i.scheduler
            .every("job", "1h", move |ctx: Context| {
                log.add(&ctx, "start", &clock);
                async move { Err::<(), _>("no paper\nin the printer") }
            })
            .retry_failed("10s")
            .max_attempts(4)
            .jitter("0s")
            .add()
            .await
            .unwrap();
    }
    world.advance(secs(3600 + 120)).await;
    let times: Vec<i64> = log.of("start").iter().map(|e| (e.at_ms - 3_600_000) / 1000).collect();
    assert_eq!(times, [0, 10, 30, 70]);
    let attempts = a.attempts("job").await;
    assert!(attempts.iter().all(|a| a.status == Some(AttemptStatus::Failed)));
    assert_eq!(attempts[3].reason, Reason::Retry);
    assert_eq!(attempts[3].run_status, Some(Status::Failed));
    assert_eq!(attempts[0].error.as_deref(), Some("no paper in the printer"));
}

#[tokio::test]
async fn without_retry_failed_a_failure_is_final() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    let (l, clock) = (log.clone(), world.clock.clone());
    a.scheduler
        .every("job", "1h", move |ctx: Context| {
            l.add(&ctx, "start", &clock);
            async { Err::<(), _>("no") }
        })
        .add()
        .await
        .unwrap();
    world.advance(secs(3600 + 1800)).await;
    assert_eq!(log.starts().len(), 1);
    let events = a.events();
    assert!(events.iter().any(|e| matches!(e, Event::Finished { status: AttemptStatus::Failed, run_status: Status::Failed, error: Some(e), .. } if &**e == "no")));
}

#[tokio::test]
async fn a_newer_slot_supersedes_a_run_that_waits_for_its_retry() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    let fails = Arc::new(AtomicU32::new(0));
    let (l, clock, f) = (log.clone(), world.clock.clone(), fails.clone());
    a.scheduler
        .every("job", "1m", move |ctx: Context| {
            l.add(&ctx, "start", &clock);
            let first = f.fetch_add(1, Ordering::SeqCst) == 0;
            async move { if first { Err("no") } else { Ok(()) } }
        })
        .retry_failed("5m")
        .add()
        .await
        .unwrap();
    world.advance(secs(600)).await;
    let attempts = a.attempts("job").await;
    assert_eq!(attempts[0].note.as_deref(), Some("superseded"));
    assert_eq!(attempts[0].run_status, Some(Status::Failed));
    assert!(log.starts().iter().all(|s| s.ends_with("#1")), "{:?}", log.starts());
}

#[tokio::test]
async fn a_handler_that_panics_fails_and_the_next_slot_runs() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    let (l, clock) = (log.clone(), world.clock.clone());
    a.scheduler
        .every("bad", "10s", move |ctx: Context| {
            l.add(&ctx, "start", &clock);
            async move {
                if ctx.attempt() == 1 {
                    panic!("the disk is on fire: {}", ctx.slot_ms());
                }
            }
        })
        .add()
        .await
        .unwrap();
    a.scheduler.every("good", "10s", work(&world, &Log::default(), ms(0))).add().await.unwrap();
    world.advance(secs(25)).await;
    let attempts = a.attempts("bad").await;
    assert_eq!(attempts.len(), 2);
    assert_eq!(attempts[0].status, Some(AttemptStatus::Failed));
    assert_eq!(attempts[0].error.as_deref(), Some(format!("panicked: the disk is on fire: {}", at(10)).as_str()));
    assert_eq!(a.attempts("good").await.len(), 2);
}

#[tokio::test]
async fn a_panic_before_the_first_await_is_a_failure_too() {
    let world = World::new();
    let a = world.instance("a").await;
    fn bad(_: Context) -> std::future::Ready<()> {
        panic!("no future")
    }
    a.scheduler.every("bad", "10s", bad).add().await.unwrap();
    world.advance(secs(25)).await;
    let attempts = a.attempts("bad").await;
    assert_eq!(attempts.len(), 2);
    assert_eq!(attempts[0].error.as_deref(), Some("panicked: no future"));
}

#[tokio::test]
async fn a_time_out_cancels_and_is_recorded() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.every("job", "1h", work(&world, &log, secs(100))).timeout("10s").jitter("0s").add().await.unwrap();
    world.advance(secs(3650)).await;
    let cancelled = log.of("cancelled: time-out");
    assert_eq!(cancelled[0].at_ms, 3_610_000);
    let attempts = a.attempts("job").await;
    assert_eq!(attempts[0].status, Some(AttemptStatus::TimedOut));
    assert_eq!(attempts[0].error.as_deref(), Some("ran longer than 10s; then it returned: cancelled: time-out"));
}

#[tokio::test]
async fn a_handler_that_ignores_its_time_out_is_dropped_after_the_grace() {
    let world = World::new();
    let a = world.instance("a").await;
    a.scheduler
        .every("job", "1h", async || std::future::pending::<()>().await)
        .timeout("10s")
        .jitter("0s")
        .add()
        .await
        .unwrap();
    world.advance(secs(3612)).await;
    assert_eq!(a.attempts("job").await[0].status, Some(AttemptStatus::Running), "5 s of grace");
    world.advance(secs(5)).await;
    let attempts = a.attempts("job").await;
    assert_eq!(attempts[0].status, Some(AttemptStatus::TimedOut));
    assert_eq!(attempts[0].error.as_deref(), Some("ran longer than 10s"));
}

#[tokio::test]
async fn ok_after_a_time_out_is_done() {
    let world = World::new();
    let a = world.instance("a").await;
    a.scheduler
        .every("job", "1h", async |ctx: Context| {
            ctx.cancelled().await;
        })
        .timeout("10s")
        .add()
        .await
        .unwrap();
    world.advance(secs(3650)).await;
    assert_eq!(a.attempts("job").await[0].status, Some(AttemptStatus::Done));
}

#[tokio::test]
async fn a_timed_out_attempt_is_retried_on_any_instance() {
    let (world, log) = (World::new(), Log::default());
    let (a, b) = (world.instance("a").await, world.instance("b").await);
    for i in [&a, &b] {
        i.scheduler
            .every("job", "1h", work(&world, &log, secs(100)))
            .timeout("10s")
            .retry_failed("20s")
            .max_attempts(2)
            .jitter("0s")
            .add()
            .await
            .unwrap();
    }
    world.advance(secs(3700)).await;
    let attempts = a.attempts("job").await;
    assert_eq!(attempts.iter().map(|a| a.status.unwrap()).collect::<Vec<_>>(), [AttemptStatus::TimedOut; 2]);
    assert_eq!(attempts[1].run_status, Some(Status::TimedOut));
}

#[tokio::test]
async fn each_of_many_runs_has_a_time_out_of_its_own() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    for (job, timeout) in [("c", "30s"), ("a", "10s"), ("b", "20s"), ("d", "36525d")] {
        let handler = work(&world, &log, secs(100));
        a.scheduler.every(job, "1h", handler).timeout(timeout).jitter("0s").add().await.unwrap();
    }
    world.advance(secs(3800)).await;
    let cancelled: Vec<i64> = log.of("cancelled: time-out").iter().map(|e| e.at_ms - 3_600_000).collect();
    assert_eq!(cancelled, [10_000, 20_000, 30_000]);
    assert_eq!(log.of("end").len(), 1);
}

#[derive(Debug)]
struct Nasty;
impl std::fmt::Display for Nasty {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("no words")
    }
}
impl std::error::Error for Nasty {}

#[tokio::test]
async fn an_error_that_cannot_be_shown_is_a_failure_all_the_same() {
    let world = World::new();
    let a = world.instance("a").await;
    a.scheduler.every("job", "1h", async || Err::<(), _>(Nasty)).jitter("0s").add().await.unwrap();
    world.advance(secs(3700)).await;
    let attempts = a.attempts("job").await;
    assert_eq!(attempts.len(), 1, "{attempts:?}");
    assert_eq!(attempts[0].status, Some(AttemptStatus::Failed));
}
