use anarchon::testing::{Fault, Verb};
use anarchon::{AttemptStatus, BackendErrorKind, Event, MemoryBackend, Overlap, Scheduler};

use crate::world::{Log, World, ms, secs, work};

/// Neither a host's name nor a process's number would do: in containers both can be those of another.
#[tokio::test]
async fn two_schedulers_of_one_process_have_names_of_their_own() {
    let (a, b) = (Scheduler::builder(MemoryBackend::new()), Scheduler::builder(MemoryBackend::new()));
    let (a, b) = (a.start().await.unwrap(), b.start().await.unwrap());
    assert_ne!(a.instance_id(), b.instance_id());
    a.stop().await.unwrap();
    b.stop().await.unwrap();
}

#[tokio::test]
async fn a_claim_whose_reply_is_lost_is_repeated_with_the_same_token_and_run_once() {
    let (world, log) = (World::new(), Log::default());
    let (a, b) = (world.instance("a").await, world.instance("b").await);
    a.scheduler.every("job", "1h", work(&world, &log, secs(1))).jitter("0s").add().await.unwrap();
    b.scheduler.every("job", "1h", work(&world, &log, secs(1))).jitter("5s").add().await.unwrap();
    a.client.fail_next(Verb::Claim, Fault::LoseReply);
    world.advance(secs(3640)).await;
    assert_eq!(log.starts(), ["a 3600 #1"]);
    assert_eq!(a.attempts("job").await.len(), 1);
}

#[tokio::test]
async fn a_claim_that_stays_unanswered_is_unclear_and_its_token_is_returned() {
    let (world, log) = (World::new(), Log::default());
    let (a, b) = (world.instance("a").await, world.instance("b").await);
    a.scheduler
        .every("job", "1h", work(&world, &log, secs(1)))
        .jitter("0s")
        .max_late("7s")
        .catch_up("0s")
        .add()
        .await
        .unwrap();
    a.client.fail_next(Verb::Claim, Fault::LoseReply);
    a.client.fail_next(Verb::Claim, Fault::LoseReply);
    a.client.fail_next(Verb::Claim, Fault::Swallow);
    world.advance(secs(3600)).await;
    b.scheduler.every("job", "1h", work(&world, &log, secs(1))).catch_up("0s").add().await.unwrap();
    world.advance(secs(15)).await;
    assert!(a.events().iter().any(|e| matches!(e, Event::Unclear { .. })));
    world.advance(secs(15)).await;
    assert_eq!(
        log.starts().len(),
        1,
        "the won but unstarted attempt was given back and started once: {:?}",
        log.starts()
    );
    let attempts = b.attempts("job").await;
    assert_eq!(attempts[0].status, Some(AttemptStatus::Returned));
    assert_eq!(
        (attempts[1].status, attempts[1].attempt),
        (Some(AttemptStatus::Done), 1),
        "a returned attempt keeps its number"
    );
}

#[tokio::test]
async fn claims_are_retried_over_an_outage_and_lose_nothing_within_max_late() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler
        .every("job", "10s", work(&world, &log, ms(0)))
        .overlap(Overlap::Allow)
        .max_late("60s")
        .add()
        .await
        .unwrap();
    world.advance(secs(5)).await;
    a.client.fail_all(Some(Fault::Fail(BackendErrorKind::Unknown)));
    world.advance(secs(40)).await;
    a.client.fail_all(None);
    world.advance(secs(10)).await;
    let mut slots: Vec<i64> = log.of("start").iter().map(|e| e.slot).collect();
    slots.sort_unstable();
    assert_eq!(slots, [10, 20, 30, 40, 50]);
    let events = a.events();
    assert_eq!(events.iter().filter(|e| matches!(e, Event::StoreTrouble { .. })).count(), 1);
    assert_eq!(events.iter().filter(|e| matches!(e, Event::StoreRecovered { .. })).count(), 1);
}

#[tokio::test]
async fn a_slot_that_an_outage_outlasts_is_missed_and_then_caught_up_with() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.every("job", "1h", work(&world, &log, ms(0))).max_late("30s").catch_up("10m").add().await.unwrap();
    world.advance(secs(3590)).await;
    a.client.fail_all(Some(Fault::Fail(BackendErrorKind::Busy)));
    world.advance(secs(100)).await;
    assert!(a.events().iter().any(|e| matches!(e, Event::Missed { .. })));
    assert_eq!(log.all(), []);
    a.client.fail_all(None);
    world.advance(secs(60)).await;
    assert_eq!(log.starts(), ["a 3600 #1"]);
    assert_eq!(a.attempts("job").await[0].reason.as_str(), "catch-up");
}

#[tokio::test]
async fn what_waits_for_a_free_call_until_it_is_too_late_is_caught_up_with() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    for job in 0..1000 {
        let handler = work(&world, &log, ms(0));
        a.scheduler.every(format!("job {job:03}"), "1d", handler).jitter("0s").add().await.unwrap();
    }
    world.advance(secs(86_398)).await;
    a.client.fail_all(Some(Fault::Swallow));
    world.advance(secs(63)).await;
    a.client.fail_all(None);
    world.advance(secs(60)).await;
    assert_eq!(log.of("end").len(), 1000, "61 s late, within the ten minutes of catch_up");
    let missed = a.events().iter().filter(|event| matches!(event, Event::Missed { .. })).count();
    assert!(missed < 100, "{missed} were given up as if nobody could make up for them");
}

#[tokio::test]
async fn a_batch_that_fails_is_repeated_one_at_a_time() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    for job in 0..10 {
        a.scheduler.every(format!("job {job}"), "1h", work(&world, &log, ms(0))).jitter("0s").add().await.unwrap();
    }
    a.client.fail_next(Verb::Claim, Fault::Fail(BackendErrorKind::Refused));
    world.advance(secs(3610)).await;
    assert_eq!(log.starts().len(), 10);
    assert_eq!(a.client.sizes(Verb::Claim), [10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
}

#[tokio::test]
async fn a_won_claim_whose_answer_came_too_late_for_its_lease_is_not_started() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.every("job", "1h", work(&world, &log, secs(1))).jitter("0s").max_late("10m").add().await.unwrap();
    world.advance(ms(3_599_999)).await;
    // The claim is sent, and the answer is read only after the process was frozen for longer than the lease.
    a.client.fail_next(Verb::Claim, Fault::LoseReply);
    world.clock.freeze(ms(1)).await;
    world.clock.freeze(secs(20)).await;
    world.advance(secs(30)).await;
    let starts = log.of("start");
    assert_eq!(starts.len(), 1, "{starts:?}");
    assert_eq!(log.of("end").len(), 1);
}

#[tokio::test]
async fn due_jobs_go_in_batches_and_their_ends_together() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    for job in 0..800 {
        let handler = work(&world, &log, ms(50));
        a.scheduler.every(format!("job {job:03}"), "1h", handler).jitter("0s").add().await.unwrap();
    }
    world.advance(secs(3605)).await;
    assert_eq!(log.of("end").len(), 800);
    assert_eq!(a.client.sizes(Verb::Claim), [512, 288]);
    assert!(a.client.calls(Verb::Finish) <= 3, "{:?}", a.client.sizes(Verb::Finish));
}

#[tokio::test]
async fn jittered_jobs_of_one_tick_go_in_at_most_four_groups() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    for job in 0..40 {
        a.scheduler.every(format!("job {job}"), "1h", work(&world, &log, ms(0))).add().await.unwrap();
    }
    world.advance(secs(3605)).await;
    assert_eq!(log.of("start").len(), 40);
    assert_eq!(a.client.sizes(Verb::Claim), [10, 10, 10, 10]);
}

#[tokio::test]
async fn a_jitter_longer_than_max_late_loses_no_slot() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.every("job", "1h", work(&world, &log, ms(0))).jitter("30m").add().await.unwrap();
    world.advance(secs(10 * 3600 + 1800)).await;
    let slots: Vec<i64> = log.of("start").iter().map(|e| e.slot / 3600).collect();
    assert_eq!(slots, (1..=10).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_store_call_that_panics_is_a_failed_call() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.every("job", "10s", work(&world, &log, ms(0))).jitter("0s").add().await.unwrap();
    a.client.fail_next(Verb::Claim, Fault::Panic);
    a.client.fail_next(Verb::Finish, Fault::Panic);
    world.advance(secs(25)).await;
    assert_eq!(log.starts(), ["a 10 #1", "a 20 #1"]);
    assert!(a.events().iter().any(|e| matches!(e, Event::StoreTrouble { .. })));
}

#[tokio::test]
async fn a_bad_job_is_no_trouble_of_the_store() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.every("bad", "10s", work(&world, &log, ms(0))).jitter("0s").add().await.unwrap();
    a.scheduler.every("good", "10s", work(&world, &log, ms(0))).jitter("0s").add().await.unwrap();
    a.client.refuse_job("bad");
    let before = a.client.calls(Verb::Active);
    world.advance(secs(65)).await;
    assert_eq!(log.starts().len(), 6);
    let trouble = a.events().iter().filter(|e| matches!(e, Event::StoreTrouble { .. })).count();
    assert_eq!(trouble, 0);
    assert!(a.client.calls(Verb::Active) - before <= 2, "{}", a.client.calls(Verb::Active) - before);
}

#[tokio::test]
async fn a_store_that_answers_every_other_call_is_not_read_anew_each_time() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    let handler = work(&world, &log, ms(0));
    a.scheduler.every("job", "100ms", handler).jitter("0s").overlap(Overlap::Allow).add().await.unwrap();
    let before = a.client.calls(Verb::Active);
    for _ in 0..1000 {
        a.client.fail_next(Verb::Claim, Fault::Fail(BackendErrorKind::Busy));
        a.client.pass_next(Verb::Claim);
    }
    world.advance(secs(20)).await;
    assert!(log.starts().len() >= 195);
    let reads = a.client.calls(Verb::Active) - before;
    assert!(reads <= 12, "{reads} reads in 20 s");
}

#[tokio::test]
async fn claims_do_not_pile_up_in_an_outage() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    for job in 0..100 {
        let handler = work(&world, &log, ms(0));
        a.scheduler.every(format!("job {job}"), "1s", handler).jitter("0s").max_late("5s").add().await.unwrap();
    }
    world.advance(ms(500)).await;
    a.client.fail_all(Some(Fault::Swallow));
    world.advance(secs(120)).await;
    let before = a.client.sizes(Verb::Claim).len();
    a.client.fail_all(None);
    world.advance(secs(10)).await;
    let sent: usize = a.client.sizes(Verb::Claim)[before..].iter().sum();
    assert!((1000..3000).contains(&sent), "{sent} claims in 10 s");
    assert!(log.starts().len() >= 900);
}

#[tokio::test]
async fn a_packet_that_arrives_after_its_claim_was_given_up_is_returned_and_started_once() {
    let (world, log) = (World::new(), Log::default());
    let (a, b) = (world.instance("a").await, world.instance("b").await);
    a.scheduler.every("job", "1h", work(&world, &log, secs(1))).jitter("0s").add().await.unwrap();
    world.advance(ms(3_599_999)).await;
    a.client.fail_next(Verb::Claim, Fault::Late);
    // Sent at 3600, and given up when five seconds later no answer has come for a job that is gone. The store takes the
    // packet for a second more.
    world.advance(ms(1000)).await;
    a.scheduler.remove("job").await.unwrap();
    world.advance(ms(4_701)).await;
    assert!(a.events().iter().any(|e| matches!(e, Event::Unclear { .. })));
    let before = a.client.calls(Verb::Release);
    assert!(before >= 2, "an answer from before the packet's last moment settles nothing: {before}");
    let outcomes = a.client.deliver().await;
    assert!(matches!(outcomes[..], [anarchon::run::ClaimOutcome::Won { attempt: 1, .. }]), "{outcomes:?}");
    world.advance(ms(300)).await;
    b.scheduler.every("job", "1h", work(&world, &log, secs(1))).jitter("0s").add().await.unwrap();
    world.advance(secs(5)).await;
    assert_eq!(log.starts(), ["b 3600 #1"]);
    let statuses: Vec<_> = b.attempts("job").await.iter().map(|attempt| attempt.status.unwrap()).collect();
    assert_eq!(statuses, [AttemptStatus::Returned, AttemptStatus::Done]);
    world.advance(secs(30)).await;
    let after = a.client.calls(Verb::Release);
    world.advance(secs(30)).await;
    assert_eq!(a.client.calls(Verb::Release), after, "and once it is settled, no more is sent");
}

#[tokio::test]
async fn a_packet_that_arrives_between_two_tries_and_is_not_heard_of_is_returned_and_started_once() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    let handler = work(&world, &log, secs(1));
    a.scheduler.every("job", "1h", handler).jitter("0s").max_late("5500ms").catch_up("0s").add().await.unwrap();
    world.advance(ms(3_599_999)).await;
    a.client.fail_next(Verb::Claim, Fault::Late);
    a.client.fail_each(Verb::Claim, Some(Fault::Fail(BackendErrorKind::Busy)));
    world.advance(ms(5_490)).await;
    let outcomes = a.client.deliver().await;
    assert!(matches!(outcomes[..], [anarchon::run::ClaimOutcome::Won { attempt: 1, .. }]), "{outcomes:?}");
    world.advance(ms(1500)).await;
    a.client.fail_each(Verb::Claim, None);
    world.advance(secs(30)).await;
    assert_eq!(log.starts(), ["a 3600 #1"]);
    let statuses: Vec<_> = a.attempts("job").await.iter().map(|attempt| attempt.status.unwrap()).collect();
    assert_eq!(statuses, [AttemptStatus::Returned, AttemptStatus::Done]);
}

#[tokio::test]
async fn a_packet_that_arrives_after_a_takeover_changes_nothing() {
    let (world, log) = (World::new(), Log::default());
    let (a, b) = (world.instance("a").await, world.instance("b").await);
    a.scheduler.every("job", "1h", work(&world, &log, secs(60))).jitter("0s").add().await.unwrap();
    b.scheduler.every("job", "1h", work(&world, &log, secs(60))).jitter("1s").add().await.unwrap();
    world.advance(ms(3_599_999)).await;
    a.client.fail_next(Verb::Claim, Fault::Late);
    world.advance(secs(4)).await;
    assert_eq!(log.starts(), ["b 3600 #1"]);
    let outcomes = a.client.deliver().await;
    assert!(matches!(outcomes[..], [anarchon::run::ClaimOutcome::Running { .. }]), "{outcomes:?}");
    world.advance(secs(100)).await;
    assert_eq!(log.starts(), ["b 3600 #1"]);
    assert_eq!(b.attempts("job").await[0].status, Some(AttemptStatus::Done));
}
