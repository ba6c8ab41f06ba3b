use anarchon::testing::{Fault, Verb};
use anarchon::{Error, Event, Overlap, Record, SkipReason};

use crate::world::{Log, START, World, at, ms, secs, work};

#[tokio::test]
async fn three_instances_run_each_slot_of_an_hour_exactly_once() {
    let (world, log) = (World::new(), Log::default());
    let mut instances = Vec::new();
    for name in ["a", "b", "c"] {
        let instance = world.instance(name).await;
        instance.scheduler.every("tick", "1s", work(&world, &log, ms(0))).overlap(Overlap::Allow).add().await.unwrap();
        instances.push(instance);
    }
    world.advance(ms(3_600_500)).await;
    let mut slots: Vec<i64> = log.of("start").iter().map(|e| e.slot).collect();
    slots.sort_unstable();
    assert!(slots == (1..=3600).collect::<Vec<_>>(), "{} slots", slots.len());
    for name in ["a", "b", "c"] {
        let share = log.of("start").iter().filter(|e| e.instance == name).count();
        assert!(share > 600, "jitter spreads the work, but {name} ran {share} of 3600");
    }
    let early = log.of("start").into_iter().find(|e| e.at_ms < e.slot * 1000);
    assert_eq!(early, None, "nothing starts before its slot");
}

#[tokio::test]
async fn a_new_job_is_not_run_for_slots_before_its_first_registration() {
    let (world, log) = (World::new(), Log::default());
    world.advance(secs(90)).await;
    let a = world.instance("a").await;
    a.scheduler.cron("monthly", "0 0 1 * *", work(&world, &log, ms(0))).catch_up("40d").add().await.unwrap();
    a.scheduler.every("minutely", "1m", work(&world, &log, ms(0))).add().await.unwrap();
    world.advance(secs(5)).await;
    assert_eq!(log.all(), []);
    world.advance(secs(30)).await;
    assert_eq!(log.starts(), ["a 120 #1"]);
}

#[tokio::test]
async fn only_the_latest_slot_missed_in_a_downtime_is_made_up_for() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.every("job", "10s", work(&world, &log, ms(0))).catch_up("1m").add().await.unwrap();
    world.advance(secs(15)).await;
    a.scheduler.stop().await.unwrap();
    world.advance(secs(60)).await;
    let b = world.instance("b").await;
    b.scheduler.every("job", "10s", work(&world, &log, ms(0))).catch_up("1m").add().await.unwrap();
    world.advance(secs(2)).await;
    assert_eq!(log.starts(), ["a 10 #1", "b 70 #1"]);
    assert_eq!(b.attempts("job").await[1].reason.as_str(), "catch-up");
}

#[tokio::test]
async fn catch_up_of_zero_makes_up_for_nothing_older_than_max_late() {
    for (max_late, expected) in [("2s", 1), ("20s", 2)] {
        let (world, log) = (World::new(), Log::default());
        let a = world.instance("a").await;
        a.scheduler
            .every("job", "1h", work(&world, &log, ms(0)))
            .catch_up("0s")
            .max_late(max_late)
            .add()
            .await
            .unwrap();
        world.advance(secs(3601)).await;
        a.scheduler.stop().await.unwrap();
        world.advance(secs(3610)).await;
        let b = world.instance("b").await;
        b.scheduler
            .every("job", "1h", work(&world, &log, ms(0)))
            .catch_up("0s")
            .max_late(max_late)
            .add()
            .await
            .unwrap();
        world.advance(secs(1)).await;
        assert_eq!(log.starts().len(), expected, "max_late {max_late}: {:?}", log.starts());
    }
}

#[tokio::test]
async fn slots_missed_while_frozen_are_coalesced_to_the_latest() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.every("job", "1s", work(&world, &log, ms(0))).add().await.unwrap();
    world.advance(ms(2500)).await;
    a.events();
    world.clock.freeze(secs(3600)).await;
    world.advance(ms(200)).await;
    assert_eq!(log.starts(), ["a 1 #1", "a 2 #1", "a 3602 #1"]);
    let events = a.events();
    assert!(events.iter().any(|e| matches!(e, Event::TimeJump { .. })), "{events:?}");
    assert!(events.iter().any(|e| matches!(e, Event::Missed { slot, .. } if slot.ms() == at(3601))), "{events:?}");
    world.advance(secs(1)).await;
    assert_eq!(log.starts().last().unwrap(), "a 3603 #1", "and the grid goes on");
}

#[tokio::test]
async fn a_freeze_longer_than_catch_up_and_max_late_runs_nothing_but_says_so() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.every("job", "1h", work(&world, &log, ms(0))).catch_up("10m").add().await.unwrap();
    world.clock.freeze(secs(3600 + 1800)).await;
    world.advance(secs(1)).await;
    assert_eq!(log.all(), []);
    assert!(a.events().iter().any(|e| matches!(e, Event::Missed { slot, .. } if slot.ms() == at(3600))));
}

#[tokio::test]
async fn a_short_delay_loses_no_slot() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    let handler = work(&world, &log, ms(0));
    a.scheduler.every("job", "1s", handler).overlap(Overlap::Allow).add().await.unwrap();
    world.clock.freeze(secs(4)).await;
    world.advance(ms(500)).await;
    let mut slots: Vec<i64> = log.of("start").iter().map(|e| e.slot).collect();
    slots.sort_unstable();
    assert_eq!(slots, [1, 2, 3, 4]);
}

#[tokio::test]
async fn a_job_longer_than_its_interval_skips_and_the_skips_are_recorded() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    let b = world.instance("b").await;
    for i in [&a, &b] {
        i.scheduler.every("job", "1s", work(&world, &log, ms(3500))).add().await.unwrap();
    }
    world.advance(ms(6200)).await;
    let slots: Vec<i64> = log.of("start").iter().map(|e| e.slot).collect();
    assert_eq!(slots, [1, 5]);
    let skips: Vec<_> = a
        .scheduler
        .history("job", 10)
        .await
        .unwrap()
        .into_iter()
        .filter_map(|r| match r {
            Record::Skipped(s) => Some((s.first.ms() - START, s.last.ms() - START, s.count, s.reason)),
            _ => None,
        })
        .collect();
    assert_eq!(skips, [(6000, 6000, 1, SkipReason::Overlap), (2000, 4000, 3, SkipReason::Overlap)]);
    let long = [a.events(), b.events()].concat();
    assert!(
        long.iter().any(|e| matches!(e, Event::LongRun { .. })),
        "three skips in a row without a time-out are warned about"
    );
}

#[tokio::test]
async fn overlap_allow_runs_every_slot() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.every("job", "1s", work(&world, &log, ms(3500))).overlap(Overlap::Allow).add().await.unwrap();
    world.advance(ms(4200)).await;
    assert_eq!(log.starts(), ["a 1 #1", "a 2 #1", "a 3 #1", "a 4 #1"]);
}

#[tokio::test]
async fn a_catch_up_waits_for_the_run_that_stands_in_its_way() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.every("job", "1m", work(&world, &log, secs(70))).add().await.unwrap();
    world.advance(secs(100)).await;
    let b = world.instance("b").await;
    b.scheduler.every("job", "1m", work(&world, &log, secs(1))).catch_up("1m").add().await.unwrap();
    assert_eq!(log.starts(), ["a 60 #1"], "slot 60 is running, so there is nothing to make up for");
    world.advance(secs(25)).await;
    assert_eq!(log.starts(), ["a 60 #1"], "slot 120 is skipped on the record");
}

#[tokio::test]
async fn an_at_job_runs_once_and_is_over() {
    let (world, log) = (World::new(), Log::default());
    let (a, b) = (world.instance("a").await, world.instance("b").await);
    for i in [&a, &b] {
        i.scheduler
            .at("once", "2026-01-15T11:00:30", work(&world, &log, ms(0)))
            .timezone("Europe/Paris")
            .add()
            .await
            .unwrap();
    }
    world.advance(secs(7200)).await;
    let starts = log.of("start");
    assert_eq!(starts.len(), 1);
    assert_eq!(starts[0].slot, 30);
    assert_eq!(a.scheduler.jobs().await.unwrap()[0].next, None);
}

#[tokio::test]
async fn a_paused_job_skips_on_the_record_and_goes_on_when_resumed() {
    let (world, log) = (World::new(), Log::default());
    let (a, b) = (world.instance("a").await, world.instance("b").await);
    for i in [&a, &b] {
        i.scheduler.every("job", "1s", work(&world, &log, ms(0))).add().await.unwrap();
    }
    a.scheduler.pause("job", "the bank is closed").await.unwrap();
    world.advance(ms(3500)).await;
    assert_eq!(log.all(), []);
    let pause = b.scheduler.paused("job").await.unwrap().unwrap();
    assert_eq!((pause.by.as_str(), pause.note.as_str(), pause.at), ("a", "the bank is closed", START));
    assert!(
        b.events().iter().any(|e| matches!(e, Event::Skipped { reason: SkipReason::Paused, .. }))
            || a.events().iter().any(|e| matches!(e, Event::Skipped { reason: SkipReason::Paused, .. }))
    );
    b.scheduler.resume("job").await.unwrap();
    world.advance(secs(1)).await;
    assert_eq!(log.of("start").len(), 1);
    assert_eq!(log.of("start")[0].slot, 4);
}

#[tokio::test]
async fn a_removed_job_lets_its_run_end_and_claims_no_more() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.every("job", "10s", work(&world, &log, secs(3))).add().await.unwrap();
    world.advance(secs(11)).await;
    assert!(a.scheduler.remove("job").await.unwrap());
    assert!(!a.scheduler.remove("job").await.unwrap());
    world.advance(secs(30)).await;
    assert_eq!(log.starts(), ["a 10 #1"]);
    assert_eq!(log.of("end").len(), 1);
    assert_eq!(a.attempts("job").await.len(), 1, "nothing is deleted");
    a.scheduler.every("job", "10s", work(&world, &log, secs(3))).add().await.unwrap();
    world.advance(secs(10)).await;
    assert_eq!(log.starts(), ["a 10 #1", "a 40 #1", "a 50 #1"], "added again, it makes up for the latest slot");
}

#[tokio::test]
async fn two_versions_of_a_schedule_share_what_they_share_and_warn() {
    let (world, log) = (World::new(), Log::default());
    let (old, new) = (world.instance("old").await, world.instance("new").await);
    old.scheduler.every("job", "3s", work(&world, &log, ms(0))).overlap(Overlap::Allow).add().await.unwrap();
    new.scheduler.every("job", "2s", work(&world, &log, ms(0))).overlap(Overlap::Allow).add().await.unwrap();
    world.advance(ms(12_500)).await;
    let mut slots: Vec<i64> = log.of("start").iter().map(|e| e.slot).collect();
    slots.sort_unstable();
    assert_eq!(slots, [2, 3, 4, 6, 8, 9, 10, 12]);
    let mismatch = new.events().into_iter().find_map(|e| match e {
        Event::FingerprintMismatch { ours, theirs, instance, .. } => Some((ours, theirs, instance)),
        _ => None,
    });
    let (ours, theirs, instance) = mismatch.unwrap();
    assert!(ours.contains("2000") && theirs.contains("3000") && &*instance == "old", "{ours} {theirs} {instance}");
}

#[tokio::test]
async fn a_changed_schedule_owes_no_slot_from_before_the_change() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.every("job", "1h", work(&world, &log, ms(0))).catch_up("1h").add().await.unwrap();
    world.advance(secs(100)).await;
    a.scheduler.stop().await.unwrap();
    let b = world.instance("b").await;
    b.scheduler.every("job", "1m", work(&world, &log, ms(0))).catch_up("1h").add().await.unwrap();
    world.advance(secs(5)).await;
    assert_eq!(log.all(), [], "slot 60 of the new schedule lies before its registration");
    world.advance(secs(20)).await;
    assert_eq!(log.starts(), ["b 120 #1"]);
}

#[tokio::test]
async fn one_seed_gives_one_trace() {
    async fn trace() -> Vec<String> {
        let (world, log) = (World::new(), Log::default());
        let mut all = Vec::new();
        for name in ["a", "b", "c"] {
            let instance = world.instance(name).await;
            for job in 0..10 {
                let handler = work(&world, &log, ms(700));
                instance.scheduler.every(format!("job {job}"), "1s", handler).add().await.unwrap();
            }
            all.push(instance);
        }
        world.advance(secs(20)).await;
        all[1].client.fail_all(Some(anarchon::testing::Fault::Swallow));
        world.advance(secs(60)).await;
        let mut trace: Vec<String> = log.all().iter().map(|e| format!("{e:?}")).collect();
        for instance in &all {
            trace.extend(instance.events().iter().map(|e| format!("{e:?}")));
        }
        trace
    }
    let (first, second) = (trace().await, trace().await);
    assert!(first.len() > 1000);
    assert_eq!(first, second);
}

#[tokio::test]
async fn a_job_that_an_instance_does_not_know_is_neither_taken_over_nor_deleted_by_it() {
    let (world, log) = (World::new(), Log::default());
    let new = world.instance("new").await;
    new.scheduler.every("only new", "1h", work(&world, &log, secs(60))).jitter("0s").add().await.unwrap();
    world.advance(secs(3601)).await;
    let old = world.instance("old").await;
    old.scheduler.every("both", "1h", work(&world, &log, ms(0))).add().await.unwrap();
    new.client.fail_all(Some(anarchon::testing::Fault::Swallow));
    world.advance(secs(120)).await;
    assert_eq!(log.starts(), ["new 3600 #1"], "the dead run waits for an instance that knows the job");
    assert_eq!(old.attempts("only new").await.len(), 1);
    let again = world.instance("again").await;
    again.scheduler.every("only new", "1h", work(&world, &log, secs(60))).add().await.unwrap();
    world.advance(secs(5)).await;
    assert_eq!(log.starts(), ["new 3600 #1", "again 3600 #2"]);
}

#[tokio::test]
async fn a_renamed_job_is_a_new_job() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.every("old name", "10s", work(&world, &log, ms(0))).jitter("0s").add().await.unwrap();
    world.advance(secs(11)).await;
    a.scheduler.stop().await.unwrap();
    let b = world.instance("b").await;
    b.scheduler.every("new name", "10s", work(&world, &log, ms(0))).jitter("0s").catch_up("10s").add().await.unwrap();
    world.advance(secs(10)).await;
    assert_eq!(log.starts(), ["a 10 #1", "b 20 #1"], "no slot from before its first registration");
    assert_eq!(b.attempts("old name").await.len(), 1, "the old one's history stays");
    assert_eq!(b.attempts("new name").await.len(), 1);
}

#[tokio::test]
async fn a_late_run_does_not_move_the_grid() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.every("job", "10s", work(&world, &log, ms(9500))).jitter("400ms").add().await.unwrap();
    world.advance(secs(100)).await;
    assert!(log.of("start").iter().all(|e| e.slot % 10 == 0), "{:?}", log.starts());
    assert!(log.of("start").len() >= 8);
}

#[tokio::test]
async fn a_job_that_the_store_refuses_to_register_does_not_take_others_with_it() {
    let world = World::new();
    let a = world.instance("a").await;
    a.client.refuse_job("bad");
    a.client.fail_next(Verb::Register, Fault::HoldReply);
    let first = a.scheduler.every("first", "1s", async || {}).add();
    let good = a.scheduler.every("good", "1s", async || {}).add();
    let bad = a.scheduler.every("bad", "1s", async || {}).add();
    let fine = a.scheduler.every("fine", "1s", async || {}).add();
    let let_go = async {
        world.advance(ms(10)).await;
        a.client.let_go();
    };
    let (first, good, bad, fine, ()) = tokio::join!(first, good, bad, fine, let_go);
    first.unwrap();
    good.unwrap();
    fine.unwrap();
    assert!(bad.is_err());
}

#[tokio::test]
async fn a_job_removed_while_it_is_being_added_stays_away() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.client.fail_next(Verb::Register, Fault::HoldReply);
    let scheduler = a.scheduler.clone();
    let handler = work(&world, &log, ms(0));
    let adding = tokio::spawn(async move { scheduler.every("job", "1s", handler).add().await });
    world.advance(ms(10)).await;
    assert!(a.scheduler.remove("job").await.unwrap());
    a.client.let_go();
    world.advance(secs(5)).await;
    assert!(!matches!(adding.await.unwrap(), Ok(()) | Err(Error::Stopped)));
    assert_eq!(log.all(), []);
    a.scheduler.every("job", "1s", work(&world, &log, ms(0))).overlap(Overlap::Allow).add().await.unwrap();
    world.advance(secs(2)).await;
    assert!(!log.all().is_empty());
}

#[tokio::test]
async fn a_catch_up_that_another_run_outlasts_is_missed() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    a.scheduler.every("job", "1m", work(&world, &log, ms(0))).add().await.unwrap();
    world.advance(secs(61)).await;
    a.scheduler.stop().await.unwrap();
    let b = world.instance("b").await;
    world.advance(secs(62)).await;
    // Slot 120 is nobody's yet when a long run begins.
    b.scheduler.every("job", "1m", work(&world, &log, secs(100))).catch_up("0s").max_late("0s").add().await.unwrap();
    b.scheduler.run_now_exclusive("job").await.unwrap();
    let c = world.instance("c").await;
    c.scheduler.every("job", "1m", work(&world, &log, ms(0))).catch_up("10m").max_late("0s").add().await.unwrap();
    world.advance(secs(70)).await;
    assert_eq!(log.starts(), ["a 60 #1", "b 123 #1"]);
    let missed = |e: &Event| matches!(e, Event::Missed { slot, .. } if slot.ms() == at(120));
    assert_eq!(c.events().iter().filter(|e| missed(e)).count(), 1);
}
