use std::sync::Arc;

use anarchon::testing::{Fault, FaultyBackend, ManualClock, Verb};
use anarchon::{Clock as _, Event, MemoryBackend, Overlap};

use crate::world::{Instance, Log, START, World, at, ms, secs, work};

#[tokio::test]
async fn due_times_are_the_stores_and_a_wrong_local_clock_is_warned_about() {
    // The store's clock is right; this machine's is an hour ahead.
    let log = Log::default();
    let local = ManualClock::new(START + 3_600_000);
    let right = ManualClock::new(START);
    let store = FaultyBackend::new(MemoryBackend::with_clock(Arc::new(right.clone())));
    let world = World { clock: local.clone(), store };
    let a = world.instance("a").await;
    a.scheduler.every("job", "10s", work(&world, &log, ms(0))).jitter("0s").add().await.unwrap();
    for _ in 0..350 {
        local.advance(ms(100)).await;
        right.advance(ms(100)).await;
    }
    let slots: Vec<i64> = log.of("start").iter().map(|e| e.slot).collect();
    assert_eq!(slots, [10, 20, 30], "slots by the store's clock, not an hour of them at once");
    // The first skew was seen before anybody could listen; a later look at it is not repeated.
    assert!(a.events().iter().all(|e| !matches!(e, Event::Missed { .. })));
}

#[tokio::test]
async fn a_clock_set_forward_runs_at_most_one_slot_and_one_set_back_none_twice() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler
        .every("job", "10s", work(&world, &log, ms(0)))
        .jitter("0s")
        .overlap(Overlap::Allow)
        .add()
        .await
        .unwrap();
    world.advance(secs(11)).await;
    world.clock.set_wall(at(3615)).await;
    world.advance(secs(2)).await;
    assert_eq!(log.starts(), ["a 10 #1", "a 3610 #1"]);
    world.clock.set_wall(at(14)).await;
    world.advance(secs(20)).await;
    let slots: Vec<i64> = log.of("start").iter().map(|e| e.slot).collect();
    assert_eq!(slots, [10, 3610, 20, 30], "set back, the grid goes on from there");
}

#[tokio::test]
async fn a_wake_up_in_the_past_never_stops_the_loop() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.every("job", "7s", work(&world, &log, ms(0))).jitter("0s").add().await.unwrap();
    for step in 1..=20 {
        world.clock.set_wall(world.clock.wall_ms() - 500).await;
        world.advance(secs(step)).await;
        world.clock.set_wall(world.clock.wall_ms() + 700).await;
    }
    let starts = log.of("start");
    let mut slots: Vec<i64> = starts.iter().map(|e| e.slot).collect();
    let all = slots.len();
    slots.sort_unstable();
    slots.dedup();
    assert_eq!(slots.len(), all, "no slot twice");
    assert!(all >= 25, "{all}");
}

#[tokio::test]
async fn a_machine_that_slept_for_two_days_goes_on_at_once() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.cron("nightly", "0 3 * * *", work(&world, &log, ms(0))).catch_up("1h").add().await.unwrap();
    world.clock.freeze(secs(2 * 86_400)).await;
    world.advance(secs(1)).await;
    assert_eq!(log.all(), [], "seven hours after 03:00 is too late");
    world.advance(secs(17 * 3600 + 10)).await;
    assert_eq!(log.of("start").len(), 1);
}

#[tokio::test]
async fn a_skew_that_appears_while_running_is_an_event() {
    let (world, log) = (World::new(), Log::default());
    let right = ManualClock::new(START);
    let store = FaultyBackend::new(MemoryBackend::with_clock(Arc::new(right.clone())));
    let skewed = World { clock: world.clock.clone(), store };
    let a: Instance = skewed.instance("a").await;
    a.scheduler.every("job", "10s", work(&skewed, &log, ms(0))).add().await.unwrap();
    skewed.clock.set_wall(START + 5000).await;
    for _ in 0..50 {
        skewed.clock.advance(secs(1)).await;
        right.advance(secs(1)).await;
    }
    assert!(
        a.events().iter().any(|e| matches!(e, Event::ClockSkew { offset_ms } if (-6100..=-4900).contains(offset_ms)))
    );
}

#[tokio::test]
async fn an_at_job_whose_time_a_jumping_clock_passed_and_came_back_from_still_runs() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.at("once", "2026-01-15T11:00:00", work(&world, &log, ms(0))).add().await.unwrap();
    world.advance(secs(60)).await;
    world.clock.set_wall(at(86_400)).await;
    world.advance(secs(60)).await;
    assert_eq!(log.all(), []);
    world.clock.set_wall(at(120)).await;
    world.advance(secs(3600)).await;
    assert_eq!(log.starts(), ["a 3600 #1"]);
}

#[tokio::test]
async fn a_daily_registration_that_is_never_answered_is_repeated_soon() {
    let world = World::new();
    let a = world.instance("a").await;
    a.scheduler.every("job", "30d", async || {}).add().await.unwrap();
    world.advance(secs(86_000)).await;
    let before = a.client.calls(Verb::Register);
    a.client.fail_each(Verb::Register, Some(Fault::Swallow));
    world.advance(secs(401)).await;
    assert_eq!(a.client.calls(Verb::Register), before + 1);
    a.client.fail_each(Verb::Register, None);
    world.advance(secs(3600)).await;
    assert_eq!(a.client.calls(Verb::Register), before + 2);
    world.advance(secs(3600)).await;
    assert_eq!(a.client.calls(Verb::Register), before + 2);
}

#[tokio::test]
async fn within_a_day_an_older_instance_learns_of_a_newer_schedule_too() {
    let (world, log) = (World::new(), Log::default());
    let old = world.instance("old").await;
    old.scheduler.every("job", "2h", work(&world, &log, ms(0))).add().await.unwrap();
    world.advance(secs(50_000)).await;
    let new = world.instance("new").await;
    new.scheduler.every("job", "3h", work(&world, &log, ms(0))).add().await.unwrap();
    world.advance(secs(40_000)).await;
    let disagree = |e: &Event| matches!(e, Event::FingerprintMismatch { instance, .. } if &**instance == "new");
    assert_eq!(old.events().iter().filter(|e| disagree(e)).count(), 1);
}
