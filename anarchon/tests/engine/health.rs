//! What `health()` says while things go well, and while they do not.

use std::sync::Arc;

use anarchon::testing::{Fault, ManualClock, TestCluster, Verb};
use anarchon::{BackendErrorKind, ClaimOnlyMemoryBackend, Context, EngineState, Event, Health, Scheduler};

use crate::world::{Log, START, World, ms, secs, work};

#[tokio::test]
async fn a_store_that_goes_away_and_comes_back_is_told() {
    let world = World::new();
    let a = world.instance("a").await;
    a.scheduler.every("job", "10s", async || {}).jitter("0s").add().await.unwrap();
    world.advance(secs(15)).await;
    let health = a.scheduler.health();
    assert!(health.is_healthy());
    assert_eq!((health.engine, health.jobs), (EngineState::Running, 1));
    assert_eq!((health.store.trouble, &health.store.last_error), (None, &None));
    assert_eq!(health.store.clock_offset_ms, Some(0));
    assert!(health.store.last_answer <= secs(5), "{health:?}");

    a.client.fail_all(Some(Fault::Fail(BackendErrorKind::Busy)));
    world.advance(secs(10)).await;
    let health = a.scheduler.health();
    assert_eq!(health.store.trouble, Some(secs(5)), "since the slot of 20 s");
    let error = health.store.last_error.as_ref().unwrap();
    assert_eq!((&*error.text, error.kind), ("backend `faulty`: told to fail", BackendErrorKind::Busy));
    assert!(error.ago < secs(5), "calls are repeated, and it is the latest error: {error:?}");
    assert_eq!(health.slots_waiting, 1);
    assert!(health.is_healthy(), "for as long as a lease lasts");

    world.advance(secs(10)).await;
    let health = a.scheduler.health();
    assert_eq!(health.store.trouble, Some(secs(15)));
    assert!(health.store.last_answer > secs(15), "{health:?}");
    assert!(!health.is_healthy());

    a.client.fail_all(None);
    world.advance(secs(5)).await;
    let health = a.scheduler.health();
    assert!(health.is_healthy());
    assert_eq!((health.store.trouble, health.slots_waiting), (None, 0));
    assert!(health.store.last_error.is_some_and(|error| error.ago >= secs(3)), "the latest one is remembered");
}

#[tokio::test]
async fn a_store_that_refuses_one_job_is_in_no_trouble() {
    let world = World::new();
    let a = world.instance("a").await;
    a.scheduler.every("job", "10s", async || {}).jitter("0s").add().await.unwrap();
    a.client.refuse_job("job");
    world.advance(secs(10)).await;
    let health = a.scheduler.health();
    assert_eq!((health.store.trouble, health.store.last_answer), (None, ms(0)));
    assert_eq!(health.store.last_error.map(|error| error.kind), Some(BackendErrorKind::Refused));
}

#[tokio::test]
async fn what_is_under_way_is_counted_from_its_claim_to_the_answer_to_its_end() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.every("job", "1h", work(&world, &log, secs(60))).jitter("0s").add().await.unwrap();
    let counts = |health: &Health| (health.slots_waiting, health.runs, health.leases, health.ends_waiting);

    a.client.fail_next(Verb::Claim, Fault::HoldReply);
    world.advance(secs(3600)).await;
    assert_eq!(counts(&a.scheduler.health()), (1, 0, 0, 0), "a claim without an answer");
    a.client.let_go();
    world.advance(secs(1)).await;
    assert_eq!(counts(&a.scheduler.health()), (0, 1, 1, 0), "a handler");
    a.client.fail_next(Verb::Finish, Fault::HoldReply);
    world.advance(secs(60)).await;
    assert_eq!(log.of("end").len(), 1);
    assert_eq!(counts(&a.scheduler.health()), (0, 0, 1, 1), "an end without an answer");
    a.client.let_go();
    world.advance(secs(1)).await;
    assert_eq!(counts(&a.scheduler.health()), (0, 0, 0, 0));
}

#[tokio::test]
async fn leases_that_are_lost_are_counted_and_held_no_more() {
    let world = World::new();
    let a = world.instance("a").await;
    // It does not react, and blocking work goes on after it was dropped.
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let ended = Arc::new(std::sync::Mutex::new(ended));
    let blocked = move |ctx: Context| {
        let ended = Arc::clone(&ended);
        async move {
            let _ = ctx.spawn_blocking(move || ended.lock().unwrap().recv()).await;
        }
    };
    a.scheduler.every("job", "1h", blocked).jitter("0s").add().await.unwrap();
    world.advance(secs(3601)).await;
    assert_eq!((a.scheduler.health().runs, a.scheduler.health().leases), (1, 1));
    a.client.fail_all(Some(Fault::Swallow));
    world.advance(secs(20)).await;
    let health = a.scheduler.health();
    assert_eq!((health.runs, health.leases, health.leases_lost), (1, 0, 1), "it still blocks its thread");
    a.client.fail_all(None);
    drop(end);
    // Its end comes from another thread.
    let over = async {
        while a.scheduler.health().runs > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(secs(60), over).await.unwrap();
    let health = a.scheduler.health();
    assert_eq!((health.leases, health.leases_lost, health.ends_waiting), (0, 1, 0));
}

#[tokio::test]
async fn missed_slots_are_counted() {
    let world = World::new();
    let a = world.instance("a").await;
    a.scheduler.every("job", "10s", async || {}).jitter("0s").add().await.unwrap();
    world.advance(secs(15)).await;
    world.clock.freeze(secs(60)).await;
    let missed = a.events().iter().filter(|event| matches!(event, Event::Missed { .. })).count();
    assert_eq!((missed, a.scheduler.health().slots_missed), (1, 1), "several at once are one");
}

#[tokio::test]
async fn a_pause_is_known_once_a_slot_was_claimed() {
    let world = World::new();
    let a = world.instance("a").await;
    for job in ["one", "two"] {
        a.scheduler.every(job, "10s", async || {}).jitter("0s").add().await.unwrap();
        a.scheduler.pause(job, "a test").await.unwrap();
    }
    world.advance(secs(15)).await;
    assert_eq!(a.scheduler.health().paused_jobs, 2);
    a.scheduler.resume("one").await.unwrap();
    world.advance(secs(10)).await;
    assert_eq!(a.scheduler.health().paused_jobs, 1);
    a.scheduler.remove("two").await.unwrap();
    world.advance(secs(1)).await;
    assert_eq!((a.scheduler.health().jobs, a.scheduler.health().paused_jobs), (1, 0));
}

#[tokio::test]
async fn an_instance_that_stops_says_so_to_its_end_and_after() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    let stubborn = work(&world, &log, secs(10));
    a.scheduler.every("job", "1h", stubborn).jitter("0s").max_attempts(1).add().await.unwrap();
    world.advance(secs(3601)).await;
    let stopping = tokio::spawn({
        let scheduler = a.scheduler.clone();
        async move { scheduler.stop().await }
    });
    world.advance(secs(1)).await;
    let health = a.scheduler.health();
    assert_eq!((health.engine, health.runs), (EngineState::Stopping, 1));
    assert!(!health.is_healthy());
    world.advance(secs(20)).await;
    stopping.await.unwrap().unwrap();
    let health = a.scheduler.health();
    assert_eq!((health.engine, health.runs, health.leases), (EngineState::Stopped, 0, 0));
    world.advance(secs(60)).await;
    assert_eq!(a.scheduler.health().engine, EngineState::Stopped, "and not stalled");
}

#[test]
fn an_engine_that_gets_no_time_is_stalled_and_one_that_is_gone_is_dead() {
    let mut cluster = TestCluster::new(2, 7, |instance| instance);
    let frozen = cluster.on(0, async |scheduler| scheduler);
    let other = cluster.on(1, async |scheduler| scheduler);
    cluster.advance(secs(3));
    assert!(frozen.health().last_turn <= secs(1), "{:?}", frozen.health());
    cluster.freeze(0);
    cluster.advance(secs(4));
    assert_eq!(frozen.health().engine, EngineState::Running, "it may only be slow");
    cluster.advance(secs(4));
    assert_eq!((frozen.health().engine, other.health().engine), (EngineState::Stalled, EngineState::Running));
    assert!(!frozen.health().is_healthy() && other.health().is_healthy());
    cluster.thaw(0);
    assert_eq!(frozen.health().engine, EngineState::Running);
    cluster.kill(0);
    assert_eq!(frozen.health().engine, EngineState::Dead);
    assert!(!frozen.health().is_healthy());
}

#[tokio::test]
async fn a_store_that_only_claims_has_no_leases_and_all_the_rest() {
    let clock = ManualClock::new(START);
    let scheduler = Scheduler::builder(ClaimOnlyMemoryBackend::with_clock(Arc::new(clock.clone())))
        .clock(Arc::new(clock.clone()))
        .seed(7)
        .on_callers_runtime()
        .start()
        .await
        .unwrap();
    let handler = {
        let clock = clock.clone();
        move || {
            use anarchon::Clock as _;
            clock.sleep_until(clock.boot() + secs(5))
        }
    };
    scheduler.every("job", "10s", handler).jitter("0s").add().await.unwrap();
    clock.advance(secs(11)).await;
    let health = scheduler.health();
    assert!(health.is_healthy());
    assert_eq!((health.jobs, health.runs, health.leases), (1, 1, 0));
    clock.advance(secs(5)).await;
    assert_eq!((scheduler.health().runs, scheduler.health().ends_waiting), (0, 0));
}
