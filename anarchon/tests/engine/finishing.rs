//! Handlers that finish their run inside a transaction of their own.

use anarchon::run::FinishOutcome;
use anarchon::testing::{Fault, PlayedFinish, Verb};
use anarchon::{AttemptStatus, Clock as _, Context, Event, Status};
use futures_util::future::BoxFuture;

use crate::world::{Instance, Log, Store, World, ms, secs, work};

/// What a handler does, in this order.
#[derive(Clone, Copy)]
enum Step {
    Begin,
    Fail,
    Commit,
    /// Commits, and the engine does not know that it has begun.
    CommitUnseen,
    /// Some ms.
    Wait(u64),
    Err,
}

type Handler = Box<dyn Fn(Context) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

fn steps(world: &World, log: &Log, steps: &'static [Step]) -> Handler {
    let (clock, log, store): (_, _, Store) = (world.clock.clone(), log.clone(), world.store.client());
    Box::new(move |ctx: Context| {
        let (clock, log, store) = (clock.clone(), log.clone(), store.clone());
        Box::pin(async move {
            log.add(&ctx, "start", &clock);
            let mut finish = None;
            for step in steps {
                match step {
                    Step::Begin => finish = Some(PlayedFinish::begin(&ctx)),
                    Step::Fail => finish.take().unwrap().fail(),
                    Step::Commit => {
                        let outcome = finish.take().unwrap().commit(&store).await.unwrap();
                        log.add(&ctx, format!("{outcome:?}"), &clock);
                    }
                    Step::CommitUnseen => {
                        let unseen = PlayedFinish::begin(&ctx);
                        unseen.clone().fail();
                        unseen.commit(&store).await.unwrap();
                    }
                    Step::Wait(time) => clock.sleep_until(clock.boot() + ms(*time)).await,
                    Step::Err => return Err("too late to matter".to_owned()),
                }
            }
            log.add(&ctx, "end", &clock);
            Ok(())
        })
    })
}

async fn one(world: &World, log: &Log, of: &'static [Step]) -> Instance {
    let a = world.instance("a").await;
    a.scheduler.every("job", "1h", steps(world, log, of)).jitter("0s").add().await.unwrap();
    a
}

/// How the only attempt ended, and its run; its error; and what was said about it.
async fn end(instance: &Instance) -> (AttemptStatus, Status, Option<String>, Vec<(AttemptStatus, Status)>) {
    let attempts = instance.attempts("job").await;
    assert_eq!(attempts.len(), 1, "{attempts:?}");
    let said = instance.events().into_iter().filter_map(|event| match event {
        Event::Finished { status, run_status, .. } => Some((status, run_status)),
        _ => None,
    });
    let attempt = attempts.into_iter().next().unwrap();
    (attempt.status.unwrap(), attempt.run_status.unwrap(), attempt.error, said.collect())
}

const DONE: (AttemptStatus, Status) = (AttemptStatus::Done, Status::Done);
const FAILED: (AttemptStatus, Status) = (AttemptStatus::Failed, Status::Failed);

#[tokio::test]
async fn a_run_that_was_committed_is_done_by_the_commit() {
    let (world, log) = (World::new(), Log::default());
    let a = one(&world, &log, &[Step::Begin, Step::Commit]).await;
    world.advance(secs(3601)).await;
    assert_eq!(end(&a).await, (DONE.0, DONE.1, None, vec![DONE]));
    assert_eq!(a.client.calls(Verb::Finish), 1, "one call asks, and would have written");
}

#[tokio::test]
async fn a_handler_that_forgets_to_commit_has_failed() {
    let (world, log) = (World::new(), Log::default());
    let a = one(&world, &log, &[Step::Begin]).await;
    world.advance(secs(3601)).await;
    let error = Some("the transaction was not committed".to_owned());
    assert_eq!(end(&a).await, (FAILED.0, FAILED.1, error, vec![FAILED]));
}

#[tokio::test]
async fn a_handler_that_could_not_mark_its_run_and_says_ok_has_failed() {
    let (world, log) = (World::new(), Log::default());
    let a = one(&world, &log, &[Step::Begin, Step::Fail]).await;
    world.advance(secs(3601)).await;
    assert_eq!((end(&a).await.0, end(&a).await.1), FAILED);
}

#[tokio::test]
async fn a_handler_that_fails_after_the_commit_is_done_all_the_same() {
    let (world, log) = (World::new(), Log::default());
    let a = one(&world, &log, &[Step::Begin, Step::Commit, Step::Err]).await;
    world.advance(secs(3601)).await;
    assert_eq!(end(&a).await, (DONE.0, DONE.1, None, vec![DONE]));
}

#[tokio::test]
async fn a_handler_that_fails_before_the_commit_has_failed_with_its_own_error() {
    let (world, log) = (World::new(), Log::default());
    let a = one(&world, &log, &[Step::Begin, Step::Err]).await;
    world.advance(secs(3601)).await;
    assert_eq!(end(&a).await.2.as_deref(), Some("too late to matter"));
}

#[tokio::test]
async fn what_was_not_committed_is_retried_where_failures_are() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    let handler = steps(&world, &log, &[Step::Begin]);
    a.scheduler.every("job", "1h", handler).retry_failed("5s").max_attempts(2).jitter("0s").add().await.unwrap();
    world.advance(secs(3620)).await;
    assert_eq!(log.starts(), ["a 3600 #1", "a 3600 #2"]);
}

#[tokio::test]
async fn a_run_by_hand_tells_whoever_waits_what_the_commit_made_of_it() {
    let (world, log) = (World::new(), Log::default());
    let a = one(&world, &log, &[Step::Begin, Step::Commit, Step::Err]).await;
    a.scheduler.every("forgets", "1h", steps(&world, &log, &[Step::Begin])).add().await.unwrap();
    let run = a.scheduler.run_now("job").await.unwrap();
    let forgets = a.scheduler.run_now("forgets").await.unwrap();
    world.advance(secs(1)).await;
    assert_eq!(run.finished().await.unwrap(), AttemptStatus::Done);
    assert_eq!(forgets.finished().await.unwrap(), AttemptStatus::Failed);
}

#[tokio::test]
async fn a_row_that_may_be_locked_is_left_out_of_the_beats_and_costs_no_other_its_lease() {
    let (world, log) = (World::new(), Log::default());
    let a = one(&world, &log, &[Step::Begin, Step::Wait(7_000), Step::Commit]).await;
    a.scheduler.every("other", "1h", work(&world, &log, secs(40))).jitter("0s").add().await.unwrap();
    world.advance(secs(3650)).await;
    assert!(a.client.sizes(Verb::Heartbeat).iter().all(|size| *size == 1), "{:?}", a.client.sizes(Verb::Heartbeat));
    assert_eq!(log.of("end").len(), 2);
    assert_eq!((end(&a).await.0, end(&a).await.1), DONE);
}

#[tokio::test]
async fn a_transaction_that_takes_longer_than_the_lease_is_told_so_before_another_may_start() {
    let (world, log) = (World::new(), Log::default());
    let a = one(&world, &log, &[Step::Begin, Step::Wait(60_000), Step::Commit]).await;
    world.advance(secs(3601)).await;
    let b = world.instance("b").await;
    b.scheduler.every("job", "1h", work(&world, &log, secs(1))).jitter("0s").add().await.unwrap();
    world.advance(secs(40)).await;
    assert_eq!(log.starts(), ["a 3600 #1", "b 3600 #2"]);
    assert!(a.events().iter().any(|event| matches!(event, Event::LeaseLost { .. })));
    assert!(!log.all().iter().any(|entry| entry.what.contains("Recorded")), "{:?}", log.all());
}

#[tokio::test]
async fn the_lease_is_kept_again_once_the_run_could_not_be_marked() {
    let (world, log) = (World::new(), Log::default());
    const STEPS: &[Step] = &[Step::Begin, Step::Wait(6_000), Step::Fail, Step::Wait(60_000), Step::Begin, Step::Commit];
    let a = one(&world, &log, STEPS).await;
    world.advance(secs(3700)).await;
    assert_eq!(log.starts().len(), 1);
    assert_eq!((end(&a).await.0, end(&a).await.1), DONE);
}

#[tokio::test]
async fn a_beat_that_was_under_way_meanwhile_does_not_call_it_lost() {
    let (world, log) = (World::new(), Log::default());
    // What the beat finds at 5 s is a run that is done; its answer comes when the handler is known to have done that.
    const STEPS: &[Step] = &[Step::Wait(4900), Step::CommitUnseen, Step::Wait(200), Step::Begin, Step::Wait(2000)];
    let a = one(&world, &log, STEPS).await;
    a.client.fail_next(Verb::Heartbeat, Fault::HoldReply);
    world.advance(ms(3_605_500)).await;
    assert_eq!(a.client.calls(Verb::Heartbeat), 1);
    a.client.let_go();
    world.advance(secs(10)).await;
    assert_eq!(log.of("end").len(), 1);
    assert_eq!(end(&a).await, (DONE.0, DONE.1, None, vec![DONE]));
}

#[tokio::test]
async fn a_time_out_after_the_commit_comes_too_late() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    let handler = steps(&world, &log, &[Step::Begin, Step::Commit, Step::Wait(60_000)]);
    a.scheduler.every("job", "1h", handler).timeout("2s").jitter("0s").add().await.unwrap();
    world.advance(secs(3610)).await;
    assert_eq!(log.of("end").len(), 0);
    assert_eq!(end(&a).await, (DONE.0, DONE.1, None, vec![DONE]));
}

#[tokio::test]
async fn a_run_whose_transaction_hangs_keeps_no_other_from_being_finished() {
    let (world, log) = (World::new(), Log::default());
    let a = one(&world, &log, &[Step::Begin, Step::Wait(100)]).await;
    a.scheduler.every("other", "1h", work(&world, &log, ms(200))).jitter("0s").add().await.unwrap();
    // The row is locked: whoever wants to end the attempt waits.
    a.client.fail_next(Verb::Finish, Fault::HoldReply);
    world.advance(secs(3601)).await;
    assert_eq!(a.attempts("other").await[0].status, Some(AttemptStatus::Done));
    let finished: Vec<String> =
        a.events().iter().filter(|e| matches!(e, Event::Finished { .. })).map(|e| format!("{e:?}")).collect();
    assert_eq!(finished.len(), 1, "{finished:?}");
    a.client.let_go();
    world.advance(secs(1)).await;
    assert!(a.events().iter().any(|e| matches!(e, Event::Finished { status: AttemptStatus::Failed, .. })));
}

#[tokio::test]
async fn a_run_that_was_committed_is_not_handed_over_when_its_instance_stops() {
    let (world, log) = (World::new(), Log::default());
    let a = one(&world, &log, &[Step::Begin, Step::Commit, Step::Wait(60_000)]).await;
    let b = world.instance("b").await;
    world.advance(secs(3601)).await;
    let scheduler = a.scheduler.clone();
    let stopping = tokio::spawn(async move { scheduler.stop().await });
    world.advance(secs(6)).await;
    stopping.await.unwrap().unwrap();
    let attempts = b.attempts("job").await;
    assert_eq!((attempts[0].status, attempts[0].run_status), (Some(DONE.0), Some(DONE.1)));
    let events = a.events();
    assert!(events.iter().any(|e| matches!(e, Event::Finished { status: AttemptStatus::Done, .. })), "{events:?}");
    assert!(!events.iter().any(|e| matches!(e, Event::HandedOver { .. } | Event::LeaseLost { .. })), "{events:?}");
}

#[tokio::test]
async fn a_run_that_was_not_committed_is_handed_over_when_its_instance_stops() {
    let (world, log) = (World::new(), Log::default());
    let a = one(&world, &log, &[Step::Begin, Step::Wait(60_000)]).await;
    world.advance(secs(3601)).await;
    let scheduler = a.scheduler.clone();
    let stopping = tokio::spawn(async move { scheduler.stop().await });
    world.advance(secs(6)).await;
    stopping.await.unwrap().unwrap();
    assert!(a.events().iter().any(|e| matches!(e, Event::HandedOver { .. })));
}

#[tokio::test]
async fn a_runner_that_was_taken_over_can_commit_nothing() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    // What it does goes on without it, as a process does that was frozen and wakes up.
    let (clock, store, after) = (world.clock.clone(), world.store.client(), log.clone());
    let zombie = move |ctx: Context| {
        let (clock, store, log) = (clock.clone(), store.clone(), after.clone());
        async move {
            log.add(&ctx, "start", &clock);
            if ctx.attempt() > 1 {
                return;
            }
            let task = tokio::spawn(async move {
                clock.sleep_until(clock.boot() + secs(60)).await;
                let outcome = PlayedFinish::begin(&ctx).commit(&store).await.unwrap();
                assert_eq!(outcome, FinishOutcome::Lost);
                log.add(&ctx, "refused", &clock);
            });
            let _ = task.await;
        }
    };
    a.scheduler.every("job", "1h", zombie.clone()).jitter("0s").add().await.unwrap();
    world.advance(secs(3601)).await;
    let b = world.instance("b").await;
    b.scheduler.every("job", "1h", zombie).jitter("0s").add().await.unwrap();
    a.client.fail_all(Some(Fault::Swallow));
    world.advance(secs(100)).await;
    assert_eq!(log.starts(), ["a 3600 #1", "b 3600 #2"]);
    assert_eq!(log.of("refused").len(), 1);
    let attempts = b.attempts("job").await;
    assert_eq!((attempts[0].status, attempts[1].status), (Some(AttemptStatus::Lost), Some(AttemptStatus::Done)));
}
