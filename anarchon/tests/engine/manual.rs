use anarchon::{AttemptStatus, ClaimOnlyMemoryBackend, Context, Error, Event, Reason, Scheduler};

use crate::world::{Log, World, ms, secs, work};

#[tokio::test]
async fn run_now_runs_here_and_now_and_touches_no_slot() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.every("job", "10s", work(&world, &log, ms(500))).jitter("0s").add().await.unwrap();
    world.advance(secs(5)).await;
    let run = a.scheduler.run_now("job").await.unwrap();
    assert!(run.run().manual.is_some());
    world.advance(secs(1)).await;
    assert_eq!(run.finished().await.unwrap(), AttemptStatus::Done);
    world.advance(secs(10)).await;
    assert_eq!(log.starts(), ["a 5 #1", "a 10 #1"]);
    let attempts = a.attempts("job").await;
    assert_eq!((attempts[0].reason, attempts[1].reason), (Reason::Manual, Reason::Scheduled));
}

#[tokio::test]
async fn run_now_does_not_mind_other_runs_and_is_allowed_on_a_paused_job() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.every("job", "10s", work(&world, &log, secs(3))).jitter("0s").add().await.unwrap();
    world.advance(secs(11)).await;
    a.scheduler.run_now("job").await.unwrap();
    a.scheduler.pause("job", "").await.unwrap();
    a.scheduler.run_now("job").await.unwrap();
    assert_eq!(log.starts(), ["a 10 #1", "a 11 #1", "a 11 #1"]);
}

#[tokio::test]
async fn an_exclusive_run_is_refused_beside_another_and_makes_slots_skip() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.every("job", "10s", work(&world, &log, secs(5))).jitter("0s").add().await.unwrap();
    world.advance(secs(11)).await;
    assert!(matches!(a.scheduler.run_now_exclusive("job").await, Err(Error::AlreadyRunning { .. })));
    world.advance(secs(7)).await;
    let run = a.scheduler.run_now_exclusive("job").await.unwrap();
    assert!(matches!(a.scheduler.run_now_exclusive("job").await, Err(Error::AlreadyRunning { .. })));
    world.advance(secs(10)).await;
    run.finished().await.unwrap();
    assert_eq!(log.starts(), ["a 10 #1", "a 18 #1"], "slot 20 is skipped");
    assert!(a.events().iter().any(|e| matches!(e, Event::Skipped { blocker: Some(b), .. } if b.manual.is_some())));
}

#[tokio::test]
async fn a_manual_run_that_fails_says_so_and_is_not_retried() {
    let world = World::new();
    let a = world.instance("a").await;
    a.scheduler.every("job", "1h", async || Err::<(), _>("no")).retry_failed("1s").add().await.unwrap();
    let run = a.scheduler.run_now("job").await.unwrap();
    world.advance(secs(60)).await;
    assert_eq!(run.finished().await.unwrap(), AttemptStatus::Failed);
    assert_eq!(a.attempts("job").await.len(), 1);
}

#[tokio::test]
async fn a_claim_only_store_runs_slots_once_and_keeps_history() {
    let (world, log) = (World::new(), Log::default());
    let store = ClaimOnlyMemoryBackend::with_clock(std::sync::Arc::new(world.clock.clone()));
    let mut all = Vec::new();
    for name in ["a", "b", "c"] {
        let scheduler = Scheduler::builder(store.clone())
            .clock(std::sync::Arc::new(world.clock.clone()))
            .seed(3)
            .on_callers_runtime()
            .instance_id(name)
            .start()
            .await
            .unwrap();
        let (log, clock) = (log.clone(), world.clock.clone());
        scheduler
            .every("job", "1s", move |ctx: Context| {
                log.add(&ctx, "start", &clock);
                assert_eq!(ctx.fence(), None);
                async {}
            })
            .add()
            .await
            .unwrap();
        all.push(scheduler);
    }
    world.advance(secs(60)).await;
    let mut slots: Vec<i64> = log.of("start").iter().map(|e| e.slot).collect();
    slots.sort_unstable();
    assert!(slots.len() >= 59 && slots.windows(2).all(|w| w[0] + 1 == w[1]), "{slots:?}");
    let run = all[0].run_now("job").await.unwrap();
    world.advance(secs(1)).await;
    assert_eq!(run.finished().await.unwrap(), AttemptStatus::Done);
    let last = all[0].last_run("job").await.unwrap().unwrap();
    assert_eq!(last.status, Some(AttemptStatus::Done));
    assert!(matches!(all[0].pause("job", "").await, Err(Error::NeedsLeases { call: "pause", .. })));
    assert!(matches!(all[0].run_now_exclusive("job").await, Err(Error::NeedsLeases { .. })));
    for scheduler in &all {
        scheduler.stop().await.unwrap();
    }
}

#[tokio::test]
async fn the_last_run_is_found_behind_any_number_of_skips() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.every("job", "10s", work(&world, &log, secs(1000))).jitter("0s").add().await.unwrap();
    world.advance(secs(11)).await;
    for _ in 0..15 {
        a.scheduler.pause("job", "").await.unwrap();
        world.advance(secs(10)).await;
        a.scheduler.resume("job").await.unwrap();
        world.advance(secs(10)).await;
    }
    assert!(a.scheduler.history("job", 16).await.unwrap().iter().all(|record| record.attempt().is_none()));
    let last = a.scheduler.last_run("job").await.unwrap().unwrap();
    assert_eq!(last.run.slot.ms(), crate::world::at(10));
    assert_eq!(a.scheduler.last_run("no such job").await.unwrap(), None);
}

#[tokio::test]
async fn a_run_on_a_claim_only_store_is_waited_for_by_stop() {
    let (world, log) = (World::new(), Log::default());
    let store = ClaimOnlyMemoryBackend::with_clock(std::sync::Arc::new(world.clock.clone()));
    let scheduler = Scheduler::builder(store)
        .clock(std::sync::Arc::new(world.clock.clone()))
        .seed(7)
        .on_callers_runtime()
        .start()
        .await
        .unwrap();
    let (log_it, clock) = (log.clone(), world.clock.clone());
    let handler = move |ctx: Context| {
        use anarchon::Clock as _;
        let (log, clock) = (log_it.clone(), clock.clone());
        async move {
            log.add(&ctx, "start", &clock);
            clock.sleep_until(clock.boot() + secs(5)).await;
            log.add(&ctx, "end", &clock);
        }
    };
    scheduler.every("job", "1h", handler).jitter("0s").add().await.unwrap();
    world.advance(secs(3601)).await;
    let stopping = {
        let scheduler = scheduler.clone();
        tokio::spawn(async move { scheduler.stop().await })
    };
    world.advance(secs(5)).await;
    stopping.await.unwrap().unwrap();
    assert_eq!((log.of("start").len(), log.of("end").len()), (1, 1));
}
