//! Names of jobs are compared byte by byte: nothing folds, trims or interprets them.

use std::collections::HashSet;
use std::time::Duration;

use super::Fixture;
use super::support::{Client, LONG, answer};
use crate::backend::JobLimits;
use crate::backend::{Backend, LeaseBackend};
use crate::run::{BeatOutcome, Ending, Status};
use crate::slot::JobName;

/// Names that some store or other might take for one another, or take apart.
fn names() -> Vec<JobName> {
    let long = |last: &str| "x".repeat(128 - last.len()) + last;
    let mut names: Vec<String> = [
        "sync",
        "Sync",
        "SYNC",
        "sync.",
        "sync-",
        "sync_",
        "sync0",
        "sync00",
        "sync\u{a0}x",
        "s",
        "null",
        "0",
        "00",
        "-1",
        "a b",
        "a  b",
        "a/b",
        "a:b",
        "a|b",
        "a,b",
        "a;b",
        "a*b",
        "a>b",
        "a.b",
        "a#b",
        "a?b",
        "a&b",
        "a=b",
        "a+b",
        "a%b",
        "a%20b",
        "a_b",
        "a'b",
        "a''b",
        "a\"b",
        "a`b",
        "a\\b",
        "a\\\\b",
        "a$1b",
        "{a}",
        "{}",
        "{a}b",
        "%",
        "%%",
        "%s",
        "_",
        "é",
        "e\u{301}",
        "E\u{301}",
        "straße",
        "strasse",
        "ı",
        "i",
        "I",
        "İ",
        "ﬁ",
        "fi",
        "\u{3a9}",
        "\u{2126}",
        "🦀",
        "🦀🦀",
        "💣",
        "中",
        "ж",
        "Ж",
        "'; drop table jobs; --",
        "1; DELETE FROM jobs",
        "../etc",
        "\u{feff}bom",
        "x\u{200b}",
        "x",
    ]
    .map(str::to_owned)
    .to_vec();
    names.extend([long("a"), long("b"), long("A"), "🦀".repeat(32), "é".repeat(64)]);
    names.into_iter().filter_map(|name| JobName::new(name).ok()).collect()
}

/// The names that a store takes: it may refuse some.
fn taken<B: Backend>(store: &B) -> Vec<JobName> {
    let second = Duration::from_secs(1);
    let takes = |job: &JobName| store.check_job(&JobLimits::new(job.clone(), second, second, None)).is_ok();
    let names: Vec<_> = names().into_iter().filter(takes).collect();
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
    assert!(names.len() >= 10, "it takes letters and digits at least");
    names
}

/// Each name is a job of its own: its slot, its pause, its floor, its history.
pub async fn every_name_is_a_job_of_its_own<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let names = taken(&*client.store);
    let mut wins = Vec::new();
    for name in &names {
        let client = client.on(name.as_str());
        let won = client.win(&client.scheduled(client.ago(1000))).await;
        assert_eq!(won.attempt, 1, "{name:?} is a job of its own");
        wins.push((client, won));
    }
    let jobs: Vec<JobName> = names.clone();
    let active = answer!("active", client.store.active(&jobs).await).value;
    assert_eq!(active.iter().map(|a| &a.run.job).collect::<HashSet<_>>().len(), names.len());
    for (n, (client, won)) in wins.iter().enumerate() {
        let history = client.attempts().await;
        assert_eq!(history.len(), 1, "{:?}", client.job);
        assert_eq!((&history[0].run, history[0].token), (&won.run, won.token));
        assert_eq!(client.active_run(&won.run).await.map(|a| a.run.job), Some(client.job.clone()));
        assert_eq!(client.paused().await, None, "{:?}", client.job);
        assert_eq!(client.beat(won, LONG).await, BeatOutcome::Alive);
        if n % 2 == 0 {
            client.pause(client.job.as_str()).await;
            assert_eq!(client.end(won, Ending::Done).await, Status::Done);
        }
    }
    for (n, (client, won)) in wins.iter().enumerate() {
        let paused = client.paused().await.map(|p| p.note);
        assert_eq!(paused.as_deref(), (n % 2 == 0).then_some(client.job.as_str()));
        assert_eq!(client.active_run(&won.run).await.is_some(), n % 2 == 1, "{:?}", client.job);
    }
}

/// A store refuses a name when a job is added, or takes it: the plainest it always takes.
pub async fn plain_names_are_always_taken<F: Fixture<Backend: Backend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let names = taken(&*client.store);
    for plain in ["sync", "Sync", "sync0", "sync_", "sync-"] {
        assert!(names.iter().any(|name| name.as_str() == plain), "{plain} is refused");
    }
}
