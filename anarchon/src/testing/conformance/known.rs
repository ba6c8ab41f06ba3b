//! What those who only read are told of a job, and that they change nothing. A store that does not tell is not asked.

use std::time::Duration;

use super::Fixture;
use super::support::{Client, LONG, SHORT, answer};
use crate::backend::{Backend as _, LeaseBackend};
use crate::run::{Ending, KnownJob, KnownSchedule, Registrant, RunClaim};

impl<B: LeaseBackend> Client<B> {
    /// What the store tells of this client's job; outside `None` when it does not tell at all.
    async fn known(&self) -> Option<Option<KnownJob>> {
        let known = answer!("known", self.store.known(std::slice::from_ref(&self.job)).await)?;
        assert!(known.len() <= 1 && known.iter().all(|known| known.job == self.job), "{known:?}");
        Some(known.into_iter().next())
    }
}

/// A job that nobody has named is not known, and asking for it does not change that.
pub async fn nothing_is_known_of_a_job_that_nobody_named<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    for _ in 0..2 {
        assert!(matches!(client.known().await, None | Some(None)));
    }
    client.assert_nothing_written().await;
}

/// Each schedule is told with its floor and who registered it last; one that only a claim has brought, with its floor.
pub async fn schedules_are_known_with_their_floors<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let here = Client::new(fixture).await;
    if here.known().await.is_none() {
        return;
    }
    let there = here.other(fixture, "there").await;
    let first = here.register("every 1s", "every 1s, 2025b").await.floor;
    let second = here.register("every 2s", "every 2s, 2025b").await.floor;
    there.register("every 2s", "every 2s, 2026a").await;
    here.win(&RunClaim { identity: "every 3s".into(), floor: 17, ..here.scheduled(here.ago(1000)) }).await;
    let known = there.known().await.flatten().expect("the job is known");
    assert_eq!((known.trim_mark, &known.pause), (None, &None));
    let told: Vec<(&str, i64)> = known.schedules.iter().map(|known| (&*known.identity, known.floor)).collect();
    assert_eq!(told, [("every 1s", first), ("every 2s", second), ("every 3s", 17)]);
    let by = |known: &KnownSchedule| {
        known.registered.as_ref().map(|by: &Registrant| (by.instance.clone(), by.fingerprint.clone()))
    };
    let pair = |instance: &str, fingerprint: &str| Some((instance.to_owned(), fingerprint.to_owned()));
    let told: Vec<_> = known.schedules.iter().map(by).collect();
    assert_eq!(told, [pair("here", "every 1s, 2025b"), pair("there", "every 2s, 2026a"), None]);
    for at in known.schedules.iter().filter_map(|known| known.registered.as_ref()).map(|by| by.at) {
        assert!(at >= here.start && at <= here.now().await, "registered at {at}");
    }
}

/// The pause and the trim mark are told, and of all jobs as well as of one.
pub async fn the_pause_and_the_trim_mark_are_known<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    if client.known().await.is_none() {
        return;
    }
    let old = client.win(&client.scheduled(client.ago(2000))).await;
    client.end(&old, Ending::Done).await;
    client.pass(Duration::from_millis(2)).await;
    client.trim_until_gone(old.token).await;
    client.pause("it's \"late\" — 😴").await;
    let known = client.known().await.flatten().expect("the job is known");
    assert_eq!(known.trim_mark, Some(old.run.slot));
    assert_eq!(known.pause, client.paused().await);
    assert_eq!(known.pause.expect("it is paused").note, "it's \"late\" — 😴");
    let other = client.on("another job");
    other.register("every 1s", "1").await;
    let all = answer!("known", client.store.known(&[]).await).expect("a store that tells, tells of all");
    let named = |client: &Client<F::Backend>| all.iter().any(|known| known.job == client.job);
    assert!(named(&client) && named(&other), "{all:?}");
    client.resume().await;
    assert_eq!(client.known().await.flatten().expect("it still is").pause, None);
}

/// Who only reads is told the same unfinished runs as a backup.
pub async fn unfinished_runs_are_those_that_backups_see<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let live = client.win(&RunClaim { lease: LONG, ..client.scheduled(client.ago(1000)) }).await;
    let other = client.on("another job");
    other.win_and_die(&RunClaim { lease: SHORT, ..other.scheduled(other.ago(1000)) }).await;
    for jobs in [vec![client.job.clone()], vec![client.job.clone(), other.job.clone()]] {
        let told = answer!("unfinished", client.store.unfinished(&jobs).await).value;
        let watched = answer!("active", client.store.active(&jobs).await).value;
        let runs = |runs: &[crate::run::ActiveRun]| {
            runs.iter().map(|run| (run.run.clone(), run.status, run.attempt, run.instance.clone())).collect::<Vec<_>>()
        };
        assert_eq!(runs(&told), runs(&watched));
        assert_eq!(told.len(), jobs.len());
    }
    assert!(client.left(&live.run).await > Duration::ZERO);
}

/// Connecting to read finds a store that is in use, names its server, and undoes nothing.
pub async fn a_store_in_use_is_found_by_who_only_reads<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let won = client.win(&RunClaim { lease: LONG, ..client.scheduled(client.ago(1000)) }).await;
    let info = answer!("look", client.store.look().await);
    assert!(!info.empty && !info.server.is_empty(), "{info:?}");
    assert!(client.left(&won.run).await > Duration::ZERO);
}
