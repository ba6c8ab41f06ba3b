//! One instance is frozen while the others and the store go on.

use std::sync::Arc;

use anarchon::testing::{Fault, ManualClock, Verb};
use anarchon::{AttemptStatus, Clock as _, Context, Event, Scheduler};

use crate::world::{Instance, Log, START, Store, World, ms, secs, work};

/// An instance with a clock of its own, that stands still while it is frozen.
async fn own_clock(world: &World, name: &str) -> (Instance, ManualClock) {
    let clock = ManualClock::new(START);
    let client: Store = world.store.client();
    let builder = Scheduler::builder(client.clone())
        .clock(Arc::new(clock.clone()))
        .seed(7)
        .on_callers_runtime()
        .instance_id(name);
    (Instance::of(builder, client).await, clock)
}

async fn together(world: &World, frozen: &ManualClock, by: std::time::Duration) {
    let mut left = by;
    while !left.is_zero() {
        let step = left.min(ms(500));
        world.advance(step).await;
        frozen.advance(step).await;
        left -= step;
    }
}

/// Says when its handler is dropped.
struct Told(Log, Context, ManualClock);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.add(&self.1, "dropped", &self.2);
    }
}

#[tokio::test]
async fn a_process_that_wakes_after_a_takeover_is_told_and_records_nothing() {
    let (world, log) = (World::new(), Log::default());
    let (a, clock) = own_clock(&world, "a").await;
    let handler = {
        let (log, clock) = (log.clone(), clock.clone());
        move |ctx: Context| {
            let (log, clock) = (log.clone(), clock.clone());
            async move {
                log.add(&ctx, "start", &clock);
                let _told = Told(log, ctx, clock.clone());
                clock.sleep_until(clock.boot() + secs(200)).await;
            }
        }
    };
    a.scheduler.every("job", "1h", handler).jitter("0s").add().await.unwrap();
    together(&world, &clock, secs(3601)).await;
    assert_eq!(log.starts(), ["a 3600 #1"]);
    let b = world.instance("b").await;
    b.scheduler.every("job", "1h", work(&world, &log, secs(100))).jitter("0s").add().await.unwrap();
    world.advance(secs(60)).await;
    assert_eq!(log.starts(), ["a 3600 #1", "b 3600 #2"]);
    clock.freeze(secs(60)).await;
    assert_eq!(log.of("dropped").len(), 1, "at once");
    assert!(a.events().iter().any(|e| matches!(e, Event::LeaseLost { .. })));
    together(&world, &clock, secs(60)).await;
    let attempts = b.attempts("job").await;
    let statuses: Vec<_> = attempts.iter().map(|attempt| attempt.status.unwrap()).collect();
    assert_eq!(statuses, [AttemptStatus::Lost, AttemptStatus::Done]);
    assert_eq!(log.starts().len(), 2);
}

#[tokio::test]
async fn a_handler_that_wakes_before_the_engine_and_succeeds_does_not_overwrite_the_takeover() {
    let (world, log) = (World::new(), Log::default());
    let (a, clock) = own_clock(&world, "a").await;
    let (finish, finished) = tokio::sync::oneshot::channel::<()>();
    let finished = std::sync::Mutex::new(Some(finished));
    let handler = {
        let (log, clock) = (log.clone(), clock.clone());
        move |ctx: Context| {
            log.add(&ctx, "start", &clock);
            let finished = finished.lock().unwrap().take();
            async move {
                if let Some(finished) = finished {
                    let _ = finished.await;
                }
            }
        }
    };
    a.scheduler.every("job", "1h", handler).jitter("0s").add().await.unwrap();
    together(&world, &clock, secs(3601)).await;
    let b = world.instance("b").await;
    b.scheduler.every("job", "1h", work(&world, &log, secs(100))).jitter("0s").add().await.unwrap();
    world.advance(secs(60)).await;
    assert_eq!(log.starts(), ["a 3600 #1", "b 3600 #2"]);
    finish.send(()).unwrap();
    clock.freeze(secs(60)).await;
    together(&world, &clock, secs(60)).await;
    let attempts = b.attempts("job").await;
    let statuses: Vec<_> = attempts.iter().map(|attempt| attempt.status.unwrap()).collect();
    assert_eq!(statuses, [AttemptStatus::Lost, AttemptStatus::Done]);
    assert!(!a.events().iter().any(|e| matches!(e, Event::Finished { .. })));
    assert_eq!(log.starts().len(), 2);
}

#[tokio::test]
async fn a_won_claim_that_a_process_reads_when_it_wakes_is_given_back() {
    let (world, log) = (World::new(), Log::default());
    let (a, clock) = own_clock(&world, "a").await;
    a.scheduler.every("job", "1h", work(&world, &log, secs(1))).jitter("0s").add().await.unwrap();
    together(&world, &clock, secs(3599)).await;
    a.client.fail_next(Verb::Claim, Fault::HoldReply);
    together(&world, &clock, secs(2)).await;
    assert_eq!(log.all(), []);
    // The lease is not over for the store yet, but too nearly so to start.
    world.advance(secs(11)).await;
    clock.freeze_while(secs(11), || a.client.let_go()).await;
    assert!(a.events().iter().any(|e| matches!(e, Event::Returned { .. })));
    assert_eq!(log.all(), []);
    together(&world, &clock, secs(10)).await;
    assert_eq!(log.of("end").len(), 1, "and then run, once: {:?}", log.all());
}

#[tokio::test]
async fn a_job_removed_and_added_while_its_claim_is_under_way_is_run_once() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.every("job", "1h", work(&world, &log, secs(1))).jitter("0s").add().await.unwrap();
    world.advance(secs(3599)).await;
    a.client.fail_next(Verb::Claim, Fault::HoldReply);
    world.advance(ms(1100)).await;
    a.scheduler.remove("job").await.unwrap();
    a.scheduler.every("job", "1h", work(&world, &log, secs(1))).jitter("0s").add().await.unwrap();
    world.advance(ms(100)).await;
    a.client.let_go();
    world.advance(secs(10)).await;
    assert_eq!(log.starts(), ["a 3600 #1"]);
    assert_eq!(log.of("end").len(), 1);
    let statuses: Vec<_> = a.attempts("job").await.iter().map(|attempt| attempt.status.unwrap()).collect();
    assert_eq!(statuses, [AttemptStatus::Returned, AttemptStatus::Done]);
}

#[tokio::test]
async fn a_time_out_before_a_stop_stays_the_reason_and_a_lost_lease_before_a_stop_is_not_released() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    let ignores = async || std::future::pending::<()>().await;
    a.scheduler.every("slow", "1h", ignores).timeout("10s").jitter("0s").add().await.unwrap();
    a.scheduler.every("cut", "1h", ignores).jitter("0s").add().await.unwrap();
    world.advance(secs(3600 + 8)).await;
    a.client.fail_all(Some(Fault::Swallow));
    world.advance(secs(3)).await;
    let stopping = {
        let scheduler = a.scheduler.clone();
        tokio::spawn(async move { scheduler.stop().await })
    };
    world.advance(ms(100)).await;
    a.client.fail_all(None);
    world.advance(secs(6)).await;
    stopping.await.unwrap().unwrap();
    let b = world.instance("b").await;
    let status = b.attempts("slow").await[0].status;
    assert_eq!(status, Some(AttemptStatus::TimedOut));
    assert_eq!(b.attempts("cut").await[0].status, Some(AttemptStatus::HandedOver));
    assert_eq!(log.all(), []);
}

#[tokio::test]
async fn a_handler_that_wakes_before_the_engine_takes_no_step_once_its_lease_may_be_over() {
    let (world, log) = (World::new(), Log::default());
    let (a, clock) = own_clock(&world, "a").await;
    let step = Arc::new(tokio::sync::Notify::new());
    let handler = {
        let (log, clock, step) = (log.clone(), clock.clone(), step.clone());
        move |ctx: Context| {
            log.add(&ctx, "start", &clock);
            let (log, clock, step) = (log.clone(), clock.clone(), step.clone());
            async move {
                for _ in 0..100 {
                    step.notified().await;
                    log.add(&ctx, "charge", &clock);
                }
            }
        }
    };
    a.scheduler.every("job", "1h", handler).jitter("0s").add().await.unwrap();
    together(&world, &clock, secs(3601)).await;
    step.notify_one();
    together(&world, &clock, secs(30)).await;
    assert_eq!(log.of("charge").len(), 1);
    let b = world.instance("b").await;
    b.scheduler.every("job", "1h", work(&world, &log, secs(100))).jitter("0s").add().await.unwrap();
    world.advance(secs(60)).await;
    assert_eq!(log.starts(), ["a 3600 #1", "b 3600 #2"]);
    // What wakes the handler comes before what wakes the engine.
    clock.freeze_while(secs(60), || step.notify_one()).await;
    assert_eq!(log.of("charge").len(), 1, "another instance runs it by now");
    together(&world, &clock, secs(100)).await;
    let statuses: Vec<_> = b.attempts("job").await.iter().map(|attempt| attempt.status.unwrap()).collect();
    assert_eq!(statuses, [AttemptStatus::Lost, AttemptStatus::Done]);
}
