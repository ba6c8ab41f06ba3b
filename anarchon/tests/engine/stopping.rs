use anarchon::testing::{Fault, Verb};
use anarchon::{AttemptStatus, BackendErrorKind, Error, Event, Reason};

use crate::world::{Instance, Log, World, ms, secs, work};

async fn pair(world: &World, log: &Log, length: std::time::Duration, attempts: u32) -> (Instance, Instance) {
    let (a, b) = (world.instance("a").await, world.instance("b").await);
    for i in [&a, &b] {
        i.scheduler
            .every("job", "1h", work(world, log, length))
            .jitter("0s")
            .max_attempts(attempts)
            .add()
            .await
            .unwrap();
    }
    (a, b)
}

fn runner<'i>(log: &Log, a: &'i Instance, b: &'i Instance) -> (&'i Instance, &'i Instance) {
    if log.of("start").last().unwrap().instance == "a" { (a, b) } else { (b, a) }
}

/// Stops an instance while the clock moves on by itself.
async fn stop(world: &World, instance: &Instance, within: std::time::Duration) -> Result<(), Error> {
    let scheduler = instance.scheduler.clone();
    let stopping = tokio::spawn(async move { scheduler.stop().await });
    world.advance(within).await;
    assert!(stopping.is_finished(), "stop() takes longer than {within:?}");
    stopping.await.unwrap()
}

#[tokio::test]
async fn a_stopped_run_is_handed_over_and_started_within_watch_and_half_a_second() {
    let (world, log) = (World::new(), Log::default());
    let (a, b) = pair(&world, &log, secs(60), 3).await;
    world.advance(secs(3603)).await;
    let (stopped, backup) = runner(&log, &a, &b);
    stop(&world, stopped, ms(100)).await.unwrap();
    assert!(stopped.events().iter().any(|e| matches!(e, Event::HandedOver { .. })));
    world.advance(secs(100)).await;
    let (cancelled, starts) = (log.of("cancelled: stop"), log.of("start"));
    assert_eq!(starts.len(), 2);
    assert_eq!(starts[1].attempt, 2);
    let wait = starts[1].at_ms - cancelled[0].at_ms;
    assert!((0..=2500).contains(&wait), "{wait} ms");
    let attempts = backup.attempts("job").await;
    assert_eq!(attempts[0].status, Some(AttemptStatus::HandedOver));
    assert_eq!((attempts[1].status, attempts[1].reason), (Some(AttemptStatus::Done), Reason::HandOver));
}

#[tokio::test]
async fn hand_overs_use_up_no_attempt() {
    let (world, log) = (World::new(), Log::default());
    let mut all = Vec::new();
    for n in 0..5 {
        let i = world.instance(&format!("i{n}")).await;
        i.scheduler.every("job", "1h", work(&world, &log, secs(60))).jitter("0s").max_attempts(2).add().await.unwrap();
        all.push(i);
    }
    world.advance(secs(3601)).await;
    for _ in 0..4 {
        let last = log.of("start").last().unwrap().instance.clone();
        let runner = all.iter().find(|i| i.scheduler.instance_id().as_str() == last).unwrap();
        stop(&world, runner, ms(100)).await.unwrap();
        world.advance(secs(3)).await;
    }
    assert_eq!(log.of("start").iter().map(|e| e.attempt).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn a_run_that_must_not_start_twice_is_waited_for() {
    let (world, log) = (World::new(), Log::default());
    let (a, b) = pair(&world, &log, secs(10), 1).await;
    world.advance(secs(3601)).await;
    let (stopped, _) = runner(&log, &a, &b);
    stop(&world, stopped, secs(11)).await.unwrap();
    assert_eq!(log.of("end").len(), 1);
    world.advance(secs(100)).await;
    assert_eq!(log.starts().len(), 1);
}

#[tokio::test]
async fn a_run_that_must_not_start_twice_and_takes_too_long_is_recorded_as_stopped() {
    let (world, log) = (World::new(), Log::default());
    let (a, b) = pair(&world, &log, secs(100), 1).await;
    world.advance(secs(3601)).await;
    let (stopped, other) = runner(&log, &a, &b);
    stop(&world, stopped, secs(21)).await.unwrap();
    world.advance(secs(200)).await;
    assert_eq!(log.starts().len(), 1);
    let attempts = other.attempts("job").await;
    assert_eq!((attempts[0].status, attempts[0].note.as_deref()), (Some(AttemptStatus::Failed), Some("stopped")));
    assert!(attempts[0].error.as_deref().unwrap().starts_with("stopped"), "{attempts:?}");
}

#[tokio::test]
async fn a_handler_that_ignores_stop_is_dropped_after_the_grace_and_then_released() {
    let world = World::new();
    let (a, b) = (world.instance("a").await, world.instance("b").await);
    for i in [&a, &b] {
        i.scheduler.every("job", "1h", async || std::future::pending::<()>().await).jitter("0s").add().await.unwrap();
    }
    world.advance(secs(3601)).await;
    let runner = a.attempts("job").await[0].instance.clone();
    let (stopped, other) = if runner == "a" { (&a, &b) } else { (&b, &a) };
    stop(&world, stopped, ms(5100)).await.unwrap();
    assert_eq!(other.attempts("job").await[0].status, Some(AttemptStatus::HandedOver));
}

#[tokio::test]
async fn a_claim_won_while_stopping_is_returned_unstarted() {
    let (world, log) = (World::new(), Log::default());
    let (a, b) = pair(&world, &log, secs(1), 3).await;
    b.scheduler.remove("job").await.unwrap();
    world.advance(ms(3_599_900)).await;
    a.client.fail_next(Verb::Claim, Fault::LoseReply);
    world.advance(ms(200)).await;
    stop(&world, &a, secs(6)).await.unwrap();
    assert_eq!(log.all(), []);
    b.scheduler.every("job", "1h", work(&world, &log, secs(1))).add().await.unwrap();
    world.advance(secs(30)).await;
    assert_eq!(log.starts(), ["b 3600 #1"]);
    let attempts = b.attempts("job").await;
    assert_eq!(attempts[0].status, Some(AttemptStatus::Returned));
}

#[tokio::test]
async fn a_store_that_does_not_answer_costs_stop_at_most_one_call() {
    let (world, log) = (World::new(), Log::default());
    let (a, b) = pair(&world, &log, secs(100), 3).await;
    world.advance(secs(3601)).await;
    let (stopped, _) = runner(&log, &a, &b);
    stopped.client.fail_all(Some(Fault::Swallow));
    stop(&world, stopped, ms(5200)).await.unwrap();
    world.advance(secs(30)).await;
    assert_eq!(log.starts().len(), 2, "the lease does the rest");
}

#[tokio::test]
async fn stop_may_be_called_twice_and_at_once_and_ends_everything() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.every("job", "1s", work(&world, &log, ms(0))).add().await.unwrap();
    world.advance(secs(2)).await;
    let (one, two) = tokio::join!(a.scheduler.stop(), a.scheduler.stop());
    one.unwrap();
    two.unwrap();
    a.scheduler.stop().await.unwrap();
    let before = log.all().len();
    world.advance(secs(10)).await;
    assert_eq!(log.all().len(), before);
    assert!(matches!(a.scheduler.run_now("job").await, Err(Error::Stopped)));
    assert!(matches!(a.scheduler.history("job", 1).await, Err(Error::Stopped)));
    let added = a.scheduler.every("other", "1s", async || {}).add().await;
    assert!(matches!(added, Err(Error::Stopped)));
}

#[tokio::test]
async fn dropping_the_last_handle_stops_in_the_background() {
    let (world, log) = (World::new(), Log::default());
    let (a, b) = pair(&world, &log, secs(60), 3).await;
    world.advance(secs(3601)).await;
    let first = log.of("start")[0].instance.clone();
    let (dropped, other) = if first == "a" { (a, b) } else { (b, a) };
    drop(dropped);
    world.advance(secs(5)).await;
    assert_eq!(other.attempts("job").await[0].status, Some(AttemptStatus::HandedOver));
    assert_eq!(log.starts().len(), 2);
}

#[tokio::test]
async fn a_registration_answered_while_stopping_adds_no_job() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.every("long", "1h", work(&world, &log, secs(18))).jitter("0s").max_attempts(1).add().await.unwrap();
    world.advance(secs(3601)).await;
    a.client.fail_next(Verb::Register, Fault::HoldReply);
    let scheduler = a.scheduler.clone();
    let adding = tokio::spawn(async move { scheduler.every("late", "1s", async || {}).add().await });
    world.advance(ms(10)).await;
    let scheduler = a.scheduler.clone();
    let stopping = tokio::spawn(async move { scheduler.stop().await });
    world.advance(ms(10)).await;
    a.client.let_go();
    world.advance(ms(10)).await;
    assert!(matches!(adding.await.unwrap(), Err(Error::Stopped)));
    assert!(a.scheduler.jobs().await.unwrap().iter().all(|job| job.name.as_str() != "late"));
    world.advance(secs(20)).await;
    stopping.await.unwrap().unwrap();
    assert_eq!(log.of("end").len(), 1);
}

#[tokio::test]
async fn a_store_that_cannot_be_closed_does_not_hold_stop_back() {
    let world = World::new();
    let a = world.instance("a").await;
    a.client.fail_each(Verb::Close, Some(Fault::Swallow));
    stop(&world, &a, ms(1100)).await.unwrap();
}

#[tokio::test]
async fn a_busy_store_does_not_lose_the_end_of_a_run_while_stopping() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    let b = world.instance("b").await;
    for i in [&a, &b] {
        i.scheduler.every("job", "1h", work(&world, &log, secs(10))).max_attempts(1).jitter("0s").add().await.unwrap();
        i.client.fail_next(Verb::Finish, Fault::Fail(BackendErrorKind::Busy));
        i.client.fail_next(Verb::Finish, Fault::Fail(BackendErrorKind::Unknown));
    }
    world.advance(secs(3601)).await;
    let (runner, other) = if log.of("start")[0].instance == "a" { (&a, &b) } else { (&b, &a) };
    stop(&world, runner, secs(11)).await.unwrap();
    assert_eq!(other.attempts("job").await[0].status, Some(AttemptStatus::Done));
}

#[tokio::test]
async fn a_silent_store_costs_a_stop_of_many_runs_one_call() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    for job in 0..300 {
        a.scheduler.every(format!("job {job}"), "1h", work(&world, &log, secs(100))).jitter("0s").add().await.unwrap();
    }
    world.advance(secs(3601)).await;
    assert_eq!(log.starts().len(), 300);
    a.client.fail_all(Some(Fault::Swallow));
    stop(&world, &a, ms(5200)).await.unwrap();
}

#[tokio::test]
async fn a_silent_store_costs_a_stop_with_a_claim_in_flight_one_call() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.every("job", "1h", work(&world, &log, secs(1))).jitter("0s").add().await.unwrap();
    world.advance(ms(3_599_900)).await;
    a.client.fail_all(Some(Fault::Swallow));
    world.advance(ms(110)).await;
    stop(&world, &a, ms(5400)).await.unwrap();
}

#[tokio::test]
async fn a_claim_that_was_to_be_asked_again_is_not_sent_while_stopping() {
    let (world, log) = (World::new(), Log::default());
    let b = world.instance("b").await;
    b.scheduler.every("job", "1h", work(&world, &log, secs(100))).jitter("0s").add().await.unwrap();
    b.scheduler.run_now_exclusive("job").await.unwrap();
    world.advance(secs(3601 - 3600)).await;
    let a = world.instance("a").await;
    a.scheduler.every("other", "1h", work(&world, &log, secs(18))).jitter("0s").max_attempts(1).add().await.unwrap();
    world.advance(secs(3590)).await;
    b.scheduler.run_now_exclusive("job").await.unwrap();
    b.scheduler.remove("job").await.unwrap();
    world.advance(secs(20)).await;
    a.client.fail_next(Verb::Claim, Fault::HoldReply);
    let scheduler = a.scheduler.clone();
    scheduler.every("job", "1h", work(&world, &log, secs(1))).catch_up("10m").add().await.unwrap();
    world.advance(ms(500)).await;
    let scheduler = a.scheduler.clone();
    let stopping = tokio::spawn(async move { scheduler.stop().await });
    world.advance(ms(10)).await;
    let before = a.client.calls(Verb::Claim);
    a.client.let_go();
    world.advance(secs(5)).await;
    assert_eq!(a.client.calls(Verb::Claim), before, "no claim is sent while stopping");
    world.advance(secs(20)).await;
    stopping.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_manual_claim_is_not_repeated_while_stopping() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.every("job", "1h", work(&world, &log, secs(1))).add().await.unwrap();
    a.client.fail_next(Verb::ClaimManual, Fault::Fail(BackendErrorKind::Unknown));
    a.client.fail_next(Verb::ClaimManual, Fault::Fail(BackendErrorKind::Unknown));
    let scheduler = a.scheduler.clone();
    let manual = tokio::spawn(async move { scheduler.run_now("job").await });
    world.advance(ms(120)).await;
    assert_eq!(a.client.calls(Verb::ClaimManual), 2);
    stop(&world, &a, ms(1)).await.unwrap();
    assert!(matches!(manual.await.unwrap(), Err(Error::Stopped)));
    world.advance(secs(10)).await;
    assert_eq!(a.client.calls(Verb::ClaimManual), 2);
    assert_eq!(log.all(), []);
}
