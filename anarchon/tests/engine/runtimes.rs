//! The runtime on which handlers run hangs, or is gone; the engine is elsewhere.

use std::sync::mpsc::{Sender, channel};

use anarchon::testing::{Fault, Verb};
use anarchon::{AttemptStatus, BackendErrorKind, Event, Overlap};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::world::{Instance, Log, World, ms, secs, work};

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).build().unwrap()
}

/// Blocks the runtime's only thread until the sender is dropped.
async fn hang(runtime: &Runtime) -> Sender<()> {
    let (free, blocked) = channel::<()>();
    let (tell, begun) = oneshot::channel();
    runtime.spawn(async move {
        let _ = tell.send(());
        let _ = blocked.recv();
    });
    begun.await.unwrap();
    free
}

/// Waits until the runtime has run all that it was given, and the engine knows.
async fn free(world: &World, runtime: &Runtime, hanging: Sender<()>) {
    drop(hanging);
    for _ in 0..5 {
        runtime.spawn(async {}).await.unwrap();
        world.advance(ms(1)).await;
    }
}

async fn instance_on(world: &World, runtime: &Runtime, name: &str) -> Instance {
    let (builder, client) = world.builder(name);
    Instance::of(builder.handlers_on(runtime.handle().clone()), client).await
}

#[tokio::test]
async fn a_runtime_that_hangs_wins_nothing_and_makes_up_for_the_latest_slot_when_it_is_back() {
    let (world, log) = (World::new(), Log::default());
    let runtime = runtime();
    let a = instance_on(&world, &runtime, "a").await;
    a.scheduler.every("job", "1h", work(&world, &log, ms(0))).jitter("0s").add().await.unwrap();
    let often = work(&world, &Log::default(), ms(0));
    a.scheduler.every("often", "10s", often).max_late("20s").jitter("0s").add().await.unwrap();
    let hanging = hang(&runtime).await;
    world.advance(secs(3600 + 305)).await;
    assert_eq!(a.client.calls(Verb::Claim), 0);
    let missed =
        a.events().iter().filter(|e| matches!(e, Event::Missed { job, .. } if job.as_str() == "often")).count();
    assert!(missed > 350, "what waits is dropped when it is too late for it: {missed}");
    free(&world, &runtime, hanging).await;
    world.advance(secs(1)).await;
    assert_eq!(log.starts(), ["a 3600 #1"], "five minutes late, within the ten of catch_up");
    runtime.shutdown_background();
}

#[tokio::test]
async fn a_claim_is_not_sent_again_while_the_runtime_hangs() {
    let (world, log) = (World::new(), Log::default());
    let runtime = runtime();
    let a = instance_on(&world, &runtime, "a").await;
    a.scheduler.every("job", "1h", work(&world, &log, ms(0))).jitter("0s").add().await.unwrap();
    a.client.fail_next(Verb::Claim, Fault::Fail(BackendErrorKind::Busy));
    world.advance(ms(3_599_900)).await;
    world.advance(ms(100)).await;
    while a.client.calls(Verb::Claim) == 0 {
        free(&world, &runtime, channel().0).await;
    }
    let hanging = hang(&runtime).await;
    let before = a.client.calls(Verb::Claim);
    world.advance(secs(10)).await;
    assert_eq!(a.client.calls(Verb::Claim), before);
    free(&world, &runtime, hanging).await;
    world.advance(secs(1)).await;
    free(&world, &runtime, channel().0).await;
    assert_eq!(a.client.calls(Verb::Claim), before + 1);
    runtime.shutdown_background();
}

#[tokio::test]
async fn a_runtime_that_is_shut_down_hands_its_runs_over_and_wins_no_more() {
    let (world, log) = (World::new(), Log::default());
    let (one, two) = (runtime(), runtime());
    let a = instance_on(&world, &one, "a").await;
    a.scheduler.every("job", "1h", work(&world, &log, secs(50))).jitter("0s").add().await.unwrap();
    world.advance(ms(3_600_010)).await;
    free(&world, &one, channel().0).await;
    assert_eq!(log.starts(), ["a 3600 #1"]);
    let b = instance_on(&world, &two, "b").await;
    let handler = work(&world, &log, secs(1));
    b.scheduler.every("job", "1h", handler).overlap(Overlap::Allow).jitter("0s").add().await.unwrap();
    std::thread::spawn(move || one.shutdown_timeout(secs(5))).join().unwrap();
    for _ in 0..20 {
        world.advance(ms(500)).await;
        free(&world, &two, channel().0).await;
    }
    assert_eq!(log.starts(), ["a 3600 #1", "b 3600 #2"]);
    let attempts = b.attempts("job").await;
    let statuses: Vec<_> = attempts.iter().map(|attempt| attempt.status.unwrap()).collect();
    assert_eq!(statuses, [AttemptStatus::HandedOver, AttemptStatus::Done]);
    let manual = a.scheduler.run_now("job").await.unwrap();
    world.advance(secs(1)).await;
    assert_eq!(manual.finished().await.unwrap(), AttemptStatus::Failed);
    a.scheduler.stop().await.unwrap();
    two.shutdown_background();
}

#[tokio::test]
async fn a_runtime_that_is_shut_down_keeps_a_run_whose_blocking_work_goes_on() {
    let (world, log) = (World::new(), Log::default());
    let (one, two) = (runtime(), runtime());
    let a = instance_on(&world, &one, "a").await;
    let (release, blocked) = channel::<()>();
    let blocked = std::sync::Arc::new(std::sync::Mutex::new(Some(blocked)));
    let (tell, begun) = channel::<()>();
    let tell = std::sync::Arc::new(std::sync::Mutex::new(tell));
    let handler = move |ctx: anarchon::Context| {
        let (blocked, tell) = (blocked.lock().unwrap().take(), tell.clone());
        async move {
            let work = ctx.spawn_blocking(move || {
                tell.lock().unwrap().send(()).unwrap();
                blocked.map(|blocked| blocked.recv())
            });
            let _ = work.await;
        }
    };
    a.scheduler.every("job", "1h", handler).jitter("0s").add().await.unwrap();
    world.advance(ms(3_600_010)).await;
    free(&world, &one, channel().0).await;
    begun.recv().unwrap();
    let b = instance_on(&world, &two, "b").await;
    let handler = work(&world, &log, secs(1));
    b.scheduler.every("job", "1h", handler).jitter("0s").add().await.unwrap();
    one.shutdown_background();
    for _ in 0..80 {
        world.advance(ms(500)).await;
        free(&world, &two, channel().0).await;
    }
    assert_eq!(log.starts(), Vec::<String>::new(), "two leases and more have passed, and the work still goes on");
    drop(release);
    for _ in 0..400 {
        world.advance(ms(100)).await;
        free(&world, &two, channel().0).await;
        if !log.starts().is_empty() {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(log.starts(), ["b 3600 #2"]);
    two.shutdown_background();
}

#[tokio::test]
async fn a_handler_that_blocks_its_thread_is_named_by_stop_and_taken_over_after_its_lease() {
    let (world, log) = (World::new(), Log::default());
    let (one, two) = (runtime(), runtime());
    let a = instance_on(&world, &one, "a").await;
    let (release, blocked) = channel::<()>();
    let blocked = std::sync::Mutex::new(Some(blocked));
    let handler = {
        let (log, clock) = (log.clone(), world.clock.clone());
        move |ctx: anarchon::Context| {
            log.add(&ctx, "start", &clock);
            let blocked = blocked.lock().unwrap().take();
            async move {
                let _ = blocked.map(|blocked| blocked.recv());
            }
        }
    };
    a.scheduler.every("job", "1h", handler).jitter("0s").add().await.unwrap();
    world.advance(ms(3_600_000)).await;
    while log.all().is_empty() {
        world.advance(ms(1)).await;
    }
    let b = instance_on(&world, &two, "b").await;
    b.scheduler.every("job", "1h", work(&world, &log, ms(0))).jitter("0s").add().await.unwrap();
    let scheduler = a.scheduler.clone();
    let stopping = tokio::spawn(async move { scheduler.stop().await });
    world.advance(secs(34)).await;
    assert!(!stopping.is_finished(), "five seconds of grace and thirty more");
    world.advance(secs(2)).await;
    let error = stopping.await.unwrap().unwrap_err();
    assert!(matches!(&error, anarchon::Error::StillRunning { jobs, .. } if jobs[0].as_str() == "job"), "{error}");
    assert_eq!(log.starts(), ["a 3600 #1"], "it was not released");
    assert!(a.scheduler.stop().await.is_err());
    for _ in 0..40 {
        world.advance(ms(500)).await;
        free(&world, &two, channel().0).await;
    }
    assert_eq!(log.starts(), ["a 3600 #1", "b 3600 #2"]);
    drop(release);
    one.shutdown_background();
    two.shutdown_background();
}

#[tokio::test]
async fn a_handler_whose_runtime_hung_until_its_lease_was_lost_takes_no_step() {
    let (world, log) = (World::new(), Log::default());
    let runtime = runtime();
    let a = instance_on(&world, &runtime, "a").await;
    a.scheduler.every("job", "1h", work(&world, &log, ms(0))).jitter("0s").add().await.unwrap();
    world.advance(ms(3_599_999)).await;
    a.client.fail_next(Verb::Claim, Fault::HoldReply);
    while a.client.calls(Verb::Claim) == 0 {
        free(&world, &runtime, channel().0).await;
    }
    let hanging = hang(&runtime).await;
    a.client.let_go();
    world.advance(ms(1)).await;
    assert!(a.events().iter().any(|e| matches!(e, Event::Claimed { .. })));
    a.client.fail_all(Some(Fault::Swallow));
    world.advance(secs(14)).await;
    free(&world, &runtime, hanging).await;
    assert_eq!(log.all(), [], "another instance may run it by now");
    runtime.shutdown_background();
}
