//! Registration: floors, who disagrees, and jobs that nobody has any more.

use std::time::Duration;

use super::Fixture;
use super::support::{Client, LONG, SHORT, answer, until};
use crate::backend::{Backend as _, LeaseBackend};
use crate::run::{AttemptStatus, BeatOutcome, ClaimOutcome, Ending, FinishOutcome, Lateness, Registration, RunClaim};

/// A floor is set by the first registration of a schedule and never moves.
pub async fn a_floor_is_set_once<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let here = Client::new(fixture).await;
    let there = here.other(fixture, "there").await;
    let floor = here.register("every 1s", "every 1s, 2025b").await.floor;
    assert!(floor >= here.start && floor <= here.now().await, "the floor {floor} is the store's time");
    here.pass(Duration::from_millis(5)).await;
    assert_eq!(there.register("every 1s", "every 1s, 2025b").await.floor, floor);
    assert_eq!(there.register("every 1s", "every 1s, 2026a").await.floor, floor, "tzdata is no part of it");
    assert_eq!(here.register("every 1s", "every 1s, 2025b").await.floor, floor);
}

/// Another schedule of the job gets a floor of its own, and leaves the first alone.
pub async fn another_schedule_gets_a_floor_of_its_own<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let first = client.register("every 1s", "1").await.floor;
    client.pass(Duration::from_millis(5)).await;
    let second = client.register("every 2s", "2").await.floor;
    assert!(second > first, "{second} after {first}");
    assert_eq!(client.register("every 1s", "1").await.floor, first);
    assert_eq!(client.register("EVERY 1s", "3").await.floor.max(second), client.register("EVERY 1s", "3").await.floor);
    let other = client.on("another job");
    assert!(other.register("every 1s", "1").await.floor >= second, "floors are the job's own");
}

/// Instances that registered something else for the job are named, with what they registered.
pub async fn instances_that_disagree_are_named<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let old = Client::new(fixture).await;
    let new = old.other(fixture, "new").await;
    assert_eq!(old.register("every 1s", "every 1s, 2025b").await.others, []);
    let others = new.register("every 2s", "every 2s, 2025b").await.others;
    assert_eq!(others, [("here".to_owned(), "every 1s, 2025b".to_owned())]);
    let others = old.register("every 1s", "every 1s, 2025b").await.others;
    assert_eq!(others, [("new".to_owned(), "every 2s, 2025b".to_owned())]);
    let tz = old.on("tz");
    assert_eq!(tz.register("cron", "cron, 2025b").await.others, []);
    let others = new.on("tz").register("cron", "cron, 2026a").await.others;
    assert_eq!(others, [("here".to_owned(), "cron, 2025b".to_owned())], "of one schedule, other tzdata");
}

/// Instances that agree are not named, nor is the instance itself.
pub async fn instances_that_agree_are_not_named<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let here = Client::new(fixture).await;
    let there = here.other(fixture, "there").await;
    assert_eq!(here.register("every 1s", "every 1s, 2025b").await.others, []);
    assert_eq!(there.register("every 1s", "every 1s, 2025b").await.others, []);
    assert_eq!(there.on("another job").register("every 2s", "every 2s, 2025b").await.others, []);
    let restarted = here.on("restarted");
    restarted.register("every 1s", "every 1s, 2025b").await;
    assert_eq!(restarted.register("every 2s", "every 2s, 2025b").await.others, [], "itself, before its restart");
}

/// A claim whose schedule the store has lost makes nobody disagree.
pub async fn a_claim_disagrees_with_nobody<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let here = Client::new(fixture).await;
    let there = here.other(fixture, "there").await;
    here.win(&RunClaim { identity: "every 1s".into(), ..here.scheduled(here.ago(1000)) }).await;
    assert_eq!(there.register("every 1s", "every 1s, 2025b").await.others, []);
}

/// Many jobs are registered at once and answered in their order.
pub async fn registrations_are_answered_in_their_order<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let registration = |n: usize, identity: &str| {
        Registration::new(
            client.on(&format!("job-{n}")).job,
            identity.to_owned(),
            identity.to_owned(),
            client.instance.clone(),
        )
    };
    let forget_after = Duration::from_secs(86_400);
    let register =
        async |jobs: &[Registration]| answer!("register", client.store.register(jobs, forget_after).await).value;
    assert_eq!(register(&[]).await, []);
    let odd: Vec<_> = (0..100).filter(|n| n % 2 == 1).map(|n| registration(n, "every 1s")).collect();
    let odd_floors: Vec<_> = register(&odd).await.iter().map(|r| r.floor).collect();
    client.pass(Duration::from_millis(5)).await;
    let all: Vec<_> = (0..100).rev().map(|n| registration(n, "every 1s")).collect();
    let floors: Vec<_> = register(&all).await.iter().map(|r| r.floor).collect();
    assert_eq!(floors.len(), 100);
    for (n, floor) in (0..100).rev().zip(floors) {
        match n % 2 {
            1 => assert_eq!(floor, odd_floors[n / 2], "job-{n} has its floor"),
            _ => assert!(floor > odd_floors[0], "job-{n} is new"),
        }
    }
}

/// Many instances that register one schedule at once are given one floor.
pub async fn registering_at_once_gives_one_floor<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let mut tasks = Vec::new();
    for n in 0..6 {
        let client = client.other(fixture, &format!("instance-{n}")).await;
        tasks.push(tokio::spawn(async move { client.register("every 1s", "every 1s").await.floor }));
    }
    let mut floors = Vec::new();
    for task in tasks {
        floors.push(task.await.expect("a registration"));
    }
    assert!(floors.windows(2).all(|pair| pair[0] == pair[1]), "{floors:?}");
}

/// A job that no instance has registered for long is forgotten, with its history and its floor, by the registration of
/// another; its unfinished runs are over.
pub async fn a_job_that_nobody_registers_is_forgotten<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let old = client.on("old");
    let floor = old.register("every 1s", "every 1s").await.floor;
    let done = old.win(&old.scheduled(client.ago(2000))).await;
    old.end(&done, Ending::Done).await;
    let open = old.win(&old.scheduled(client.ago(1000))).await;
    let manual = old.manual();
    let (by_hand, _) = old.win_manual(&manual).await;
    let other = client.on("other");
    until("the old job is forgotten", async || {
        other.register_forgetting("every 1s", "every 1s", SHORT).await;
        old.records(10).await.is_empty().then_some(())
    })
    .await;
    assert_eq!(old.active().await, []);
    assert_eq!(old.beat(&open, LONG).await, BeatOutcome::Lost);
    assert_eq!(old.finish(&open, Ending::Done).await, FinishOutcome::Lost);
    assert_eq!(old.beat_run(&by_hand, manual.token, LONG).await, BeatOutcome::Lost);
    assert!(old.register("every 1s", "every 1s").await.floor > floor, "it begins anew");
    let claim = RunClaim { identity: "every 1s".into(), ..old.scheduled(open.run.slot) };
    assert_eq!(old.claim(&claim).await, ClaimOutcome::Late(Lateness::Floor), "and owes nothing from before");
}

/// A job is not forgotten while an instance registers it, nor by a registration that forgets later.
pub async fn a_job_that_is_registered_is_kept<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let won = client.win(&client.scheduled(client.ago(1000))).await;
    let other = client.on("other");
    client.register("every 1s", "every 1s").await;
    client.pass(SHORT).await;
    other.register("every 1s", "every 1s").await;
    assert_eq!(client.status(&won).await, AttemptStatus::Running);
    client.register_forgetting("every 1s", "every 1s", Duration::ZERO).await;
    assert_eq!(client.status(&won).await, AttemptStatus::Running, "its own registration touches it first");
    assert_eq!(client.end(&won, Ending::Done).await, crate::run::Status::Done);
}

/// A paused job is never forgotten, nor is its pause.
pub async fn a_paused_job_is_never_forgotten<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let (paused, old) = (client.on("paused"), client.on("old"));
    for client in [&paused, &old] {
        client.register("every 1s", "every 1s").await;
        let manual = client.manual();
        let (run, _) = client.win_manual(&manual).await;
        client.finish_with(&run, manual.token, Ending::Done).await;
    }
    paused.pause("on holiday").await;
    let other = client.on("other");
    until("the old job is forgotten", async || {
        other.register_forgetting("every 1s", "every 1s", SHORT).await;
        old.records(10).await.is_empty().then_some(())
    })
    .await;
    other.register_forgetting("every 1s", "every 1s", SHORT).await;
    assert_eq!(paused.paused().await.map(|p| p.note).as_deref(), Some("on holiday"));
    assert_eq!(paused.records(10).await.len(), 1);
}
