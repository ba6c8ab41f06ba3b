use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anarchon::testing::{Fault, Verb};
use anarchon::{AttemptStatus, BackendErrorKind, Context, Event, Reason, Status};

use crate::world::{Instance, Log, World, ms, secs, work};

async fn pair(world: &World, log: &Log, length: std::time::Duration) -> (Instance, Instance) {
    let (a, b) = (world.instance("a").await, world.instance("b").await);
    for i in [&a, &b] {
        i.scheduler.every("job", "1h", work(world, log, length)).jitter("0s").add().await.unwrap();
    }
    (a, b)
}

/// Which of the two runs the slot that has just begun, and which is its backup.
fn runner<'i>(log: &Log, a: &'i Instance, b: &'i Instance) -> (&'i Instance, &'i Instance) {
    if log.of("start").last().unwrap().instance == "a" { (a, b) } else { (b, a) }
}

#[tokio::test]
async fn a_runner_that_is_cut_off_stops_before_its_lease_is_over_and_a_backup_takes_over() {
    let (world, log) = (World::new(), Log::default());
    let (a, b) = pair(&world, &log, secs(100)).await;
    world.advance(secs(3601)).await;
    let (cut, backup) = runner(&log, &a, &b);
    cut.client.fail_all(Some(Fault::Swallow));
    world.advance(secs(22)).await;
    let cancelled = log.of("cancelled: lease lost");
    let starts = log.of("start");
    assert_eq!((cancelled.len(), starts.len()), (1, 2), "{:?}", log.all());
    assert!(cancelled[0].at_ms < starts[1].at_ms, "never two at once: {:?}", log.all());
    assert_eq!((starts[1].slot, starts[1].attempt), (3600, 2));
    let lease_over = 3_600_000 + 15_000;
    assert!(starts[1].at_ms >= lease_over && starts[1].at_ms <= lease_over + 1000, "{starts:?}");

    cut.client.fail_all(None);
    world.advance(secs(200)).await;
    let attempts = backup.attempts("job").await;
    let statuses: Vec<_> = attempts.iter().map(|a| (a.attempt, a.status.unwrap(), a.reason)).collect();
    assert_eq!(statuses, [(1, AttemptStatus::Lost, Reason::Scheduled), (2, AttemptStatus::Done, Reason::Takeover)]);
    assert!(attempts[0].fence < attempts[1].fence);
    assert_eq!(attempts[1].run_status, Some(Status::Done));
    assert!(cut.events().iter().any(|e| matches!(e, Event::LeaseLost { .. })));
}

#[tokio::test]
async fn heartbeats_of_one_instance_go_in_one_call_and_keep_every_lease() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    for job in 0..50 {
        let handler = work(&world, &log, secs(100));
        a.scheduler.every(format!("job {job}"), "1h", handler).jitter("0s").add().await.unwrap();
    }
    world.advance(secs(3600)).await;
    let before = a.client.calls(Verb::Heartbeat);
    world.advance(secs(60)).await;
    assert_eq!(a.client.calls(Verb::Heartbeat) - before, 12, "one call every 5 s");
    assert!(a.client.sizes(Verb::Heartbeat).iter().all(|size| *size == 50));
    world.advance(secs(60)).await;
    assert_eq!(log.of("end").len(), 50);
    assert!(log.of("start").len() == 50);
}

#[tokio::test]
async fn a_lost_heartbeat_reply_costs_nothing() {
    let (world, log) = (World::new(), Log::default());
    let (a, b) = pair(&world, &log, secs(60)).await;
    world.advance(secs(3601)).await;
    let (runner, _) = runner(&log, &a, &b);
    runner.client.fail_next(Verb::Heartbeat, Fault::LoseReply);
    runner.client.pass_next(Verb::Heartbeat);
    runner.client.fail_next(Verb::Heartbeat, Fault::Fail(BackendErrorKind::Unknown));
    world.advance(secs(120)).await;
    assert_eq!(log.starts().len(), 1);
    assert_eq!(log.of("end").len(), 1);
}

#[tokio::test]
async fn a_failed_heartbeat_is_tried_again_at_once() {
    let (world, log) = (World::new(), Log::default());
    let (a, b) = pair(&world, &log, secs(60)).await;
    world.advance(secs(3601)).await;
    let (runner, _) = runner(&log, &a, &b);
    for _ in 0..6 {
        runner.client.fail_next(Verb::Heartbeat, Fault::Fail(BackendErrorKind::Unknown));
    }
    world.advance(secs(120)).await;
    assert_eq!(log.of("end").len(), 1, "six failures in a row fit into one lease: {:?}", log.all());
}

#[tokio::test]
async fn a_finish_whose_reply_is_lost_is_repeated_and_recognised() {
    let (world, log) = (World::new(), Log::default());
    let (a, b) = pair(&world, &log, secs(1)).await;
    for i in [&a, &b] {
        i.client.fail_next(Verb::Finish, Fault::LoseReply);
        i.client.fail_next(Verb::Finish, Fault::FailAfter(BackendErrorKind::Unknown));
    }
    world.advance(secs(3700)).await;
    let attempts = a.attempts("job").await;
    assert_eq!(attempts.len(), 1);
    assert_eq!(attempts[0].status, Some(AttemptStatus::Done));
    let finished = [a.events(), b.events()].concat().iter().filter(|e| matches!(e, Event::Finished { .. })).count();
    assert_eq!(finished, 1);
}

#[tokio::test]
async fn a_finish_is_repeated_over_an_outage_and_its_lease_is_kept() {
    let (world, log) = (World::new(), Log::default());
    let (a, b) = pair(&world, &log, secs(1)).await;
    world.advance(ms(3_600_500)).await;
    let (runner, backup) = runner(&log, &a, &b);
    for _ in 0..5 {
        runner.client.fail_next(Verb::Finish, Fault::Fail(BackendErrorKind::Unknown));
    }
    world.advance(secs(60)).await;
    assert_eq!(log.starts().len(), 1);
    assert_eq!(backup.attempts("job").await[0].status, Some(AttemptStatus::Done));
}

#[tokio::test]
async fn a_whole_restart_in_the_middle_of_a_run_runs_it_again_once() {
    let (world, log) = (World::new(), Log::default());
    let (a, b) = pair(&world, &log, secs(100)).await;
    world.advance(secs(3601)).await;
    for dead in [&a, &b] {
        dead.client.fail_all(Some(Fault::Swallow));
    }
    let (c, d) = (world.instance("c").await, world.instance("d").await);
    for i in [&c, &d] {
        i.scheduler.every("job", "1h", work(&world, &log, secs(10))).add().await.unwrap();
    }
    world.advance(secs(60)).await;
    let starts = log.of("start");
    assert_eq!(starts.len(), 2, "{starts:?}");
    assert_eq!((starts[1].slot, starts[1].attempt), (3600, 2));
    assert!("cd".contains(&starts[1].instance));
    assert!(starts[1].at_ms >= 3_615_000);
}

#[tokio::test]
async fn takeovers_end_with_max_attempts_and_the_run_is_dead() {
    let (world, log) = (World::new(), Log::default());
    let mut all = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let i = world.instance(name).await;
        i.scheduler
            .every("job", "1h", work(&world, &log, secs(1000)))
            .max_attempts(3)
            .jitter("0s")
            .add()
            .await
            .unwrap();
        all.push(i);
    }
    world.advance(secs(3601)).await;
    for attempt in 1..=3 {
        let runner = log.of("start").last().unwrap().clone();
        assert_eq!(runner.attempt, attempt);
        let dead = all.iter().find(|i| i.scheduler.instance_id().as_str() == runner.instance).unwrap();
        dead.client.fail_all(Some(Fault::Swallow));
        world.advance(secs(30)).await;
    }
    assert_eq!(log.starts().len(), 3, "{:?}", log.starts());
    let alive =
        all.iter().find(|i| !log.starts().iter().any(|s| s.starts_with(i.scheduler.instance_id().as_str()))).unwrap();
    let attempts = alive.attempts("job").await;
    assert!(attempts.iter().all(|a| a.status == Some(AttemptStatus::Lost)), "{attempts:?}");
    assert_eq!(attempts[2].run_status, Some(Status::Dead));
}

#[tokio::test]
async fn a_loser_keeps_claiming_later_slots_by_its_own_timer() {
    let (world, log) = (World::new(), Log::default());
    let (a, b) = (world.instance("a").await, world.instance("b").await);
    for i in [&a, &b] {
        i.scheduler.every("job", "10s", work(&world, &log, ms(10))).jitter("0s").add().await.unwrap();
    }
    world.advance(secs(11)).await;
    let (winner, loser) = runner(&log, &a, &b);
    winner.scheduler.stop().await.unwrap();
    world.advance(secs(50)).await;
    let slots: Vec<i64> = log.of("start").iter().map(|e| e.slot).collect();
    assert_eq!(slots, [10, 20, 30, 40, 50, 60]);
    loser.scheduler.stop().await.unwrap();
}

#[tokio::test]
async fn losing_is_no_error_and_no_start() {
    let (world, log) = (World::new(), Log::default());
    let (a, b) = pair(&world, &log, ms(0)).await;
    world.advance(secs(3601)).await;
    let (_, loser) = runner(&log, &a, &b);
    let events = loser.events();
    assert!(events.iter().any(|e| matches!(e, Event::LostRace { .. })), "{events:?}");
    assert!(
        !events.iter().any(|e| matches!(e, Event::StoreTrouble { .. } | Event::Started { .. } | Event::Missed { .. }))
    );
}

#[tokio::test]
async fn a_backup_reads_only_while_runs_live_elsewhere() {
    let (world, log) = (World::new(), Log::default());
    let (a, b) = pair(&world, &log, secs(10)).await;
    world.advance(secs(3600)).await;
    let before = a.client.calls(Verb::Active) + b.client.calls(Verb::Active);
    world.advance(secs(20)).await;
    let during = a.client.calls(Verb::Active) + b.client.calls(Verb::Active);
    assert!((4..=8).contains(&(during - before)), "one read every 2 s while it runs: {}", during - before);
    world.advance(secs(1000)).await;
    assert_eq!(a.client.calls(Verb::Active) + b.client.calls(Verb::Active), during, "and none after");
}

#[tokio::test]
async fn a_run_is_not_won_again_here_while_its_old_handler_still_blocks() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    let running = Arc::new(AtomicU32::new(0));
    let most = Arc::new(AtomicU32::new(0));
    let (free, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Arc::new(std::sync::Mutex::new(blocked));
    let handler = {
        let (log, clock, running, most) = (log.clone(), world.clock.clone(), running.clone(), most.clone());
        move |ctx: Context| {
            let (log, clock, running, most, blocked) =
                (log.clone(), clock.clone(), running.clone(), most.clone(), blocked.clone());
            async move {
                log.add(&ctx, "start", &clock);
                let inner = ctx.clone();
                let work = ctx.spawn_blocking(move || {
                    let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    if inner.attempt() == 1 {
                        let _ = blocked.lock().unwrap().recv();
                    }
                    running.fetch_sub(1, Ordering::SeqCst);
                });
                let _ = work.await;
            }
        }
    };
    a.scheduler.every("job", "1h", handler.clone()).jitter("0s").add().await.unwrap();
    world.advance(secs(3601)).await;
    a.client.fail_all(Some(Fault::Swallow));
    world.advance(secs(20)).await;
    a.client.fail_all(None);
    world.advance(secs(1)).await;
    assert_eq!(log.starts(), ["a 3600 #1"]);
    a.scheduler.remove("job").await.unwrap();
    a.scheduler.every("job", "1h", handler).jitter("0s").add().await.unwrap();
    world.advance(secs(30)).await;
    assert_eq!(log.starts(), ["a 3600 #1"], "the first attempt's blocking work still runs here");
    free.send(()).unwrap();
    // The blocking work ends on a thread of its own, in its own time.
    for _ in 0..10_000 {
        world.advance(ms(100)).await;
        if log.starts().len() > 1 {
            break;
        }
        std::thread::sleep(ms(1));
    }
    assert_eq!(log.starts(), ["a 3600 #1", "a 3600 #2"]);
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn heartbeats_of_a_long_outage_do_not_pile_up() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.every("job", "10h", work(&world, &log, secs(1))).jitter("0s").add().await.unwrap();
    a.scheduler.run_now("job").await.unwrap();
    a.client.fail_all(Some(Fault::Fail(BackendErrorKind::Unknown)));
    world.advance(secs(600)).await;
    let before = a.client.calls(Verb::Heartbeat);
    world.advance(secs(60)).await;
    let beats = a.client.calls(Verb::Heartbeat) - before;
    assert!(beats <= 60, "{beats} in a minute");
}

#[tokio::test]
async fn the_repeated_end_of_one_run_holds_no_other_back() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.every("bad", "1h", work(&world, &log, ms(0))).jitter("0s").add().await.unwrap();
    a.scheduler.every("good", "1h", work(&world, &log, ms(2500))).jitter("0s").add().await.unwrap();
    for _ in 0..5 {
        a.client.fail_next(Verb::Finish, Fault::Fail(BackendErrorKind::Unknown));
    }
    // By now the end of the one waits for more than a second.
    world.advance(ms(3_602_510)).await;
    assert_eq!(log.of("end").len(), 2);
    assert_eq!(a.attempts("good").await[0].status, Some(AttemptStatus::Done));
    assert_eq!(a.attempts("bad").await[0].status, Some(AttemptStatus::Running));
}

#[tokio::test]
async fn a_slow_store_costs_no_lease_as_long_as_it_answers_each_call_in_time() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.every("job", "1h", work(&world, &log, secs(12))).jitter("0s").add().await.unwrap();
    for verb in [Verb::Claim, Verb::Heartbeat, Verb::Heartbeat] {
        a.client.fail_next(verb, Fault::HoldReply);
    }
    world.advance(secs(3600)).await;
    for _ in 0..3 {
        world.advance(ms(4700)).await;
        a.client.let_go();
    }
    world.advance(secs(10)).await;
    assert_eq!(log.of("cancelled: lease lost"), []);
    assert_eq!(log.of("end").len(), 1);
}

#[tokio::test]
async fn a_lost_lease_is_said_when_the_handler_is_told_and_once() {
    let world = World::new();
    let a = world.instance("a").await;
    let (free, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = std::sync::Mutex::new(Some(blocked));
    let handler = move |ctx: Context| {
        let blocked = blocked.lock().unwrap().take();
        async move {
            ctx.spawn_blocking(move || blocked.map(|blocked| blocked.recv())).await.unwrap();
        }
    };
    a.scheduler.every("job", "1h", handler).jitter("0s").add().await.unwrap();
    world.advance(secs(3601)).await;
    a.client.fail_all(Some(Fault::Swallow));
    world.advance(ms(11_100)).await;
    let lost = |e: &Event| matches!(e, Event::LeaseLost { .. });
    assert_eq!(a.events().iter().filter(|e| lost(e)).count(), 1, "two margins before the lease is over");
    a.client.fail_all(None);
    world.advance(secs(10)).await;
    drop(free);
    for _ in 0..50 {
        std::thread::yield_now();
        world.advance(ms(10)).await;
    }
    assert_eq!(a.events().iter().filter(|e| lost(e)).count(), 0);
}
