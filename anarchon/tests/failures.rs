//! The scenarios of the guide's page about failures, one module for each of its sections: instances of a cluster in one
//! process, whose time is moved by hand. The same is tested with real processes and real stores elsewhere.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a test fails")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anarchon::testing::{Fault, ManualClock, TestCluster, Verb};
use anarchon::{
    AttemptRecord, AttemptStatus, CancelReason, ClaimOnlyMemoryBackend, Clock as _, Context, Error, Event, Overlap,
    Reason, Record, Scheduler, SkipReason,
};

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// What handlers did at last, and on which instance.
#[derive(Clone, Default)]
struct Handled(Arc<Mutex<Vec<Last>>>);

/// The instance, and why the handler was cancelled if it was.
type Last = (String, Option<CancelReason>);

impl Handled {
    async fn handle(self, ctx: Context, work: Duration) -> Result<(), String> {
        let cancelled = tokio::select! {
            () = tokio::time::sleep(work) => None,
            reason = ctx.cancelled() => Some(reason),
        };
        self.0.lock().unwrap().push((ctx.instance_id().to_string(), cancelled));
        cancelled.map_or(Ok(()), |reason| Err(reason.to_string()))
    }

    fn cancelled(&self) -> Vec<(String, CancelReason)> {
        self.0.lock().unwrap().iter().filter_map(|(on, reason)| Some((on.clone(), (*reason)?))).collect()
    }

    fn ended(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().filter(|(_, reason)| reason.is_none()).map(|(on, _)| on.clone()).collect()
    }
}

fn cluster(instances: usize) -> TestCluster {
    TestCluster::new(instances, 7, |instance| instance.lease("15s").stop_grace("5s"))
}

fn add_job_every(interval: &str, cluster: &mut TestCluster, work: Duration, attempts: u32) -> Handled {
    let handled = Handled::default();
    cluster
        .on_each(async |scheduler| {
            let handled = handled.clone();
            let handler = move |ctx: Context| handled.clone().handle(ctx, work);
            let job = scheduler.every("job", interval, handler).jitter("0s").overlap(Overlap::Skip);
            job.max_attempts(attempts).catch_up("10m").add().await
        })
        .unwrap();
    handled
}

fn add_job(cluster: &mut TestCluster, work: Duration, attempts: u32) -> Handled {
    add_job_every("1m", cluster, work, attempts)
}

/// Lets the next slot begin; returns who runs it.
fn begin(cluster: &mut TestCluster) -> usize {
    cluster.advance_to_next("job");
    cluster.advance(secs(1));
    cluster.running("job").expect("somebody runs it")
}

fn statuses(attempts: &[AttemptRecord]) -> Vec<(u32, Option<AttemptStatus>)> {
    attempts.iter().map(|attempt| (attempt.attempt, attempt.status)).collect()
}

mod the_runner_crashes {
    use super::*;

    #[test]
    fn a_backup_starts_its_run_again_within_a_lease_and_a_second() {
        let mut cluster = cluster(3);
        add_job(&mut cluster, secs(20), 2);
        let winner = begin(&mut cluster);
        cluster.kill(winner);
        cluster.advance(secs(50));
        let attempts = cluster.attempts("job");
        assert_eq!(statuses(&attempts), [(1, Some(AttemptStatus::Lost)), (2, Some(AttemptStatus::Done))]);
        assert_eq!(attempts[1].reason, Reason::Takeover);
        let waited = attempts[1].claimed_at - attempts[0].claimed_at;
        assert!((15_000..=16_000).contains(&waited), "{waited} ms after the claim");
        cluster.assert_never_two_at_once("job");
    }

    #[test]
    fn all_of_them_do_and_the_first_to_start_again_runs_it_once_more() {
        let mut cluster = cluster(2);
        add_job(&mut cluster, secs(5), 2);
        begin(&mut cluster);
        cluster.kill(0);
        cluster.kill(1);
        cluster.advance(secs(20));
        cluster.start(0);
        cluster.start(1);
        add_job(&mut cluster, secs(5), 2);
        cluster.advance(secs(20));
        let attempts = cluster.attempts("job");
        assert_eq!(statuses(&attempts), [(1, Some(AttemptStatus::Lost)), (2, Some(AttemptStatus::Done))]);
    }

    #[test]
    fn a_run_with_one_attempt_is_dead() {
        let mut cluster = cluster(2);
        add_job(&mut cluster, secs(20), 1);
        let winner = begin(&mut cluster);
        cluster.kill(winner);
        cluster.advance(secs(50));
        let attempts = cluster.attempts("job");
        assert_eq!(statuses(&attempts), [(1, Some(AttemptStatus::Lost))]);
        assert_eq!(attempts[0].run_status, Some(anarchon::Status::Dead));
    }
}

mod the_runner_freezes {
    use super::*;

    #[test]
    fn its_handler_is_dropped_when_it_wakes_and_changes_nothing() {
        let mut cluster = cluster(2);
        let handled = add_job(&mut cluster, secs(30), 2);
        let winner = begin(&mut cluster);
        cluster.freeze(winner);
        cluster.advance(secs(20));
        cluster.events(winner);
        cluster.thaw(winner);
        cluster.advance(secs(30));
        let attempts = cluster.attempts("job");
        assert_eq!(statuses(&attempts), [(1, Some(AttemptStatus::Lost)), (2, Some(AttemptStatus::Done))]);
        assert_eq!(handled.ended(), [if winner == 0 { "1" } else { "0" }]);
        let events = cluster.events(winner);
        assert!(events.iter().any(|event| matches!(event, Event::LeaseLost { .. })), "{events:?}");
    }
}

mod the_runner_is_cut_off {
    use super::*;

    #[test]
    fn it_is_cancelled_before_another_may_begin() {
        let mut cluster = cluster(2);
        let handled = add_job(&mut cluster, secs(40), 2);
        let winner = begin(&mut cluster);
        cluster.cut_off(winner);
        cluster.advance(secs(14));
        assert_eq!(handled.cancelled(), [(winner.to_string(), CancelReason::LeaseLost)], "while nobody else may begin");
        assert_eq!(cluster.attempts("job").len(), 1);
        cluster.advance(secs(3));
        assert_eq!(cluster.attempts("job").len(), 2);
        cluster.heal(winner);
        cluster.advance(secs(60));
        cluster.assert_never_two_at_once("job");
    }
}

mod the_store_is_away {
    use super::*;

    /// Cuts all off for `outage`, from a second before the next slot; returns the slot and what happened on all.
    fn outage(cluster: &mut TestCluster, outage: Duration) -> (i64, Vec<Event>) {
        let mut events = Vec::new();
        cluster.advance_to_next("job");
        cluster.advance(secs(299));
        (0..2).for_each(|instance| cluster.cut_off(instance));
        cluster.advance(secs(1));
        let slot = cluster.clock().wall_ms();
        cluster.advance(outage.saturating_sub(secs(1)));
        assert!(cluster.attempts("job").iter().all(|attempt| attempt.run.slot.ms() < slot));
        (0..2).for_each(|instance| cluster.heal(instance));
        cluster.advance(secs(60));
        (0..2).for_each(|instance| events.extend(cluster.events(instance)));
        (slot, events)
    }

    #[test]
    fn what_falls_due_meanwhile_is_claimed_when_it_is_back() {
        let mut cluster = cluster(2);
        add_job_every("5m", &mut cluster, secs(1), 1);
        let (slot, events) = outage(&mut cluster, secs(40));
        let attempts: Vec<_> = cluster.attempts("job").into_iter().filter(|a| a.run.slot.ms() == slot).collect();
        assert_eq!(statuses(&attempts), [(1, Some(AttemptStatus::Done))]);
        assert_eq!(attempts[0].reason, Reason::Scheduled);
        assert!(events.iter().any(|event| matches!(event, Event::StoreRecovered { .. })), "{events:?}");
    }

    #[test]
    fn what_it_makes_too_late_is_reported_and_then_made_up_for() {
        let mut cluster = cluster(2);
        add_job_every("5m", &mut cluster, secs(1), 1);
        let (slot, events) = outage(&mut cluster, secs(90));
        let attempts: Vec<_> = cluster.attempts("job").into_iter().filter(|a| a.run.slot.ms() == slot).collect();
        assert_eq!(statuses(&attempts), [(1, Some(AttemptStatus::Done))]);
        assert_eq!(attempts[0].reason, Reason::CatchUp);
        assert!(events.iter().any(|event| matches!(event, Event::Unclear { .. })), "{events:?}");
    }
}

mod an_answer_is_lost {
    use super::*;

    #[test]
    fn a_claim_is_sent_again_with_its_token_and_wins_again() {
        let mut cluster = cluster(2);
        let handled = add_job(&mut cluster, secs(2), 3);
        (0..2).for_each(|instance| cluster.store(instance).fail_next(Verb::Claim, Fault::LoseReply));
        cluster.advance_to_next("job");
        cluster.advance(secs(30));
        let attempts = cluster.attempts("job");
        assert_eq!(statuses(&attempts), [(1, Some(AttemptStatus::Done))]);
        assert_eq!(handled.ended(), [attempts[0].instance.clone()]);
        let runner: usize = attempts[0].instance.parse().unwrap();
        assert_eq!(cluster.store(runner).calls(Verb::Claim), 2);
    }

    #[test]
    fn an_end_is_sent_again_and_recognised() {
        let mut cluster = cluster(2);
        let handled = add_job(&mut cluster, secs(2), 3);
        (0..2).for_each(|instance| cluster.store(instance).fail_next(Verb::Finish, Fault::LoseReply));
        let runner = begin(&mut cluster);
        cluster.advance(secs(30));
        assert_eq!(statuses(&cluster.attempts("job")), [(1, Some(AttemptStatus::Done))]);
        assert_eq!(handled.ended(), [runner.to_string()]);
        assert_eq!(cluster.store(runner).calls(Verb::Finish), 2);
    }
}

mod a_clock_is_wrong_or_jumps {
    use super::*;

    #[test]
    fn slots_are_claimed_by_the_stores_clock_and_it_is_warned_about() {
        let mut cluster = cluster(2);
        add_job(&mut cluster, secs(2), 1);
        let wrong = [190_700, -117_700];
        (0..2).for_each(|instance| cluster.set_ahead(instance, wrong[instance]));
        cluster.advance(secs(600));
        let attempts = cluster.attempts("job");
        assert_eq!(attempts.len(), 10);
        for attempt in attempts {
            let late = attempt.claimed_at - attempt.run.slot.ms();
            assert!((0..1000).contains(&late), "{late} ms after the slot");
        }
        cluster.assert_each_slot_done_once("job");
        for (instance, ahead) in wrong.into_iter().enumerate() {
            let events = cluster.events(instance);
            let warned =
                |event: &Event| matches!(event, Event::ClockSkew { offset_ms } if (offset_ms + ahead).abs() < 100);
            assert!(events.iter().any(warned), "{events:?}");
        }
    }
}

mod a_deploy {
    use super::*;

    #[test]
    fn one_that_is_stopped_hands_its_run_over_and_another_begins_at_once() {
        let mut cluster = cluster(2);
        let handled = add_job(&mut cluster, secs(30), 2);
        let winner = begin(&mut cluster);
        cluster.stop(winner).unwrap();
        cluster.advance(secs(50));
        assert_eq!(handled.cancelled(), [(winner.to_string(), CancelReason::Stop)]);
        let attempts = cluster.attempts("job");
        let [first, second] = &attempts[..] else { panic!("{attempts:?}") };
        assert_eq!((first.status, second.reason), (Some(AttemptStatus::HandedOver), Reason::HandOver));
        let waited = second.claimed_at - first.ended_at.unwrap();
        assert!((0..=2_500).contains(&waited), "{waited} ms: a watch and half a second");
        cluster.assert_never_two_at_once("job");
    }

    #[test]
    fn all_are_replaced_one_by_one_and_no_slot_is_lost() {
        let mut cluster = cluster(3);
        let job = async || tokio::time::sleep(secs(8)).await;
        let add =
            async |scheduler: Scheduler<_>| scheduler.every("job", "30s", job).jitter("1s").max_attempts(2).add().await;
        cluster.on_each(add).unwrap();
        for instance in [0, 1, 2] {
            cluster.advance(secs(64)); // in the middle of a run
            cluster.stop(instance).unwrap();
            cluster.start(instance);
            cluster.on(instance, add).unwrap();
        }
        cluster.advance(secs(80));
        cluster.assert_each_slot_done_once("job");
        cluster.assert_never_two_at_once("job");
        let mut slots: Vec<i64> = cluster.attempts("job").iter().map(|attempt| attempt.run.slot.ms()).collect();
        slots.dedup();
        assert!(slots.len() >= 8 && slots.windows(2).all(|two| two[0] + 30_000 == two[1]), "{slots:?}");
    }
}

mod everything_is_down_when_a_slot_is_due {
    use super::*;

    #[test]
    fn the_latest_is_made_up_for_once() {
        let mut cluster = cluster(2);
        add_job(&mut cluster, secs(1), 1);
        begin(&mut cluster);
        cluster.advance(secs(10));
        cluster.kill(0);
        cluster.kill(1);
        cluster.advance(secs(170));
        cluster.start(0);
        cluster.start(1);
        add_job(&mut cluster, secs(1), 1);
        cluster.advance(secs(30));
        let attempts = cluster.attempts("job");
        let late: Vec<_> = attempts.iter().filter(|a| a.reason == Reason::CatchUp).collect();
        let [made_up_for] = late[..] else { panic!("{attempts:?}") };
        assert_eq!(made_up_for.run.slot.ms() - attempts[0].run.slot.ms(), 180_000, "of three slots the last");
        assert_eq!(attempts.len(), 2);
        cluster.assert_each_slot_done_once("job");
    }
}

mod a_handler_is_slow {
    use super::*;

    #[test]
    fn slots_meanwhile_are_skipped_on_the_record() {
        let mut cluster = cluster(2);
        add_job(&mut cluster, secs(200), 1);
        let winner = begin(&mut cluster);
        cluster.advance(secs(5 * 60));
        cluster.assert_never_two_at_once("job");
        let history = cluster.history("job");
        let skipped: Vec<_> = history
            .iter()
            .filter_map(|record| match record {
                Record::Skipped(skipped) => Some((skipped.count, skipped.reason)),
                _ => None,
            })
            .collect();
        assert_eq!(skipped.last(), Some(&(3, SkipReason::Overlap)), "{history:?}");
        let slots: Vec<i64> = cluster.attempts("job").iter().map(|attempt| attempt.run.slot.ms()).collect();
        assert_eq!(slots[1] - slots[0], 240_000, "four minutes later the job is run again");
        let told = |event: &Event| matches!(event, Event::LongRun { .. });
        let events = [cluster.events(winner), cluster.events(1 - winner)].concat();
        assert!(events.iter().any(told), "{events:?}");
    }

    #[test]
    fn slots_meanwhile_run_beside_it_where_overlap_is_allowed() {
        let mut cluster = cluster(2);
        let slow = async || tokio::time::sleep(secs(90)).await;
        cluster
            .on_each::<Error>(async |scheduler| {
                scheduler.every("job", "1m", slow).jitter("0s").overlap(Overlap::Allow).add().await
            })
            .unwrap();
        cluster.advance_to_next("job");
        cluster.advance(secs(70));
        let running = cluster.attempts("job").iter().filter(|a| a.status == Some(AttemptStatus::Running)).count();
        assert_eq!(running, 2);
    }
}

mod without_leases {
    use super::*;

    #[test]
    fn a_run_whose_runner_dies_is_lost_and_the_next_slot_is_run() {
        let clock = ManualClock::new(1_768_471_200_000); // 2026-01-15T10:00:00Z
        let store = ClaimOnlyMemoryBackend::with_clock(Arc::new(clock.clone()));
        let handled = Handled::default();
        let start = |name: &'static str| {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
            let builder = Scheduler::builder(store.clone()).clock(Arc::new(clock.clone())).seed(7);
            let (clock, handled) = (clock.clone(), handled.clone());
            let scheduler = runtime.block_on(async {
                let scheduler = builder.on_callers_runtime().instance_id(name).start().await.unwrap();
                let job = move |ctx: Context| {
                    let (clock, handled) = (clock.clone(), handled.clone());
                    async move {
                        clock.sleep_until(clock.boot() + secs(20)).await;
                        handled.0.lock().unwrap().push((ctx.instance_id().to_string(), None));
                    }
                };
                scheduler.every("job", "1m", job).jitter("0s").add().await.unwrap();
                scheduler
            });
            (runtime, scheduler)
        };
        // Only the runtime that advances the clock runs: so a wins the first slot, and is killed in the middle of it.
        let (a, _a) = start("a");
        let (b, scheduler) = start("b");
        a.block_on(clock.advance(secs(70)));
        a.shutdown_background();
        b.block_on(clock.advance(secs(90)));

        let history = b.block_on(scheduler.history("job", 10)).unwrap();
        let mut attempts: Vec<_> = history.iter().filter_map(Record::attempt).collect();
        attempts.reverse();
        let told: Vec<_> = attempts.iter().map(|a| (&*a.instance, a.attempt, a.status)).collect();
        assert_eq!(told, [("a", 1, None), ("b", 1, Some(AttemptStatus::Done))]);
        assert_eq!(handled.ended(), ["b"]);
    }
}

/// So that a section which is new or has another name gets its test.
#[test]
fn each_section_of_the_page_has_a_module_here() {
    let sections = include_str!("../src/docs/failures.md").lines().filter_map(|line| line.strip_prefix("# "));
    let modules: Vec<String> = sections.map(|title| title.to_lowercase().replace(',', "").replace(' ', "_")).collect();
    assert_eq!(modules.len(), 10);
    for module in modules {
        assert!(include_str!("failures.rs").contains(&format!("\nmod {module} {{\n")), "no test of `{module}`");
    }
}
