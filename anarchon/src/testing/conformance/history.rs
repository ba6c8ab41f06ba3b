//! History: what it says, in which order, word for word.

use std::time::Duration;

use super::Fixture;
use super::support::{Client, failed, timed_out};
use crate::backend::LeaseBackend;
use crate::option::Overlap;
use crate::run::{AttemptStatus, Ending, Reason, Record, RunClaim, Status};

fn allow(claim: RunClaim) -> RunClaim {
    RunClaim { overlap: Overlap::Allow, ..claim }
}

/// An attempt's record says who, when, why and how, from its start to its end.
pub async fn an_attempt_is_told_from_start_to_end<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let slot = client.ago(1000);
    let won = client.win(&client.scheduled(slot)).await;
    let record = client.attempt(won.token).await;
    assert_eq!((&record.run, record.attempt, record.token), (&won.run, 1, won.token));
    assert_eq!((record.fence, record.reason), (Some(won.fence), Reason::Scheduled));
    assert_eq!(record.instance, client.instance.as_str());
    assert_eq!((record.status, record.run_status), (Some(AttemptStatus::Running), Some(Status::Running)));
    assert!(record.claimed_at >= client.start && record.claimed_at <= client.now().await);
    assert_eq!((record.ended_at, &record.error, &record.note), (None, &None, &None));
    client.pass(Duration::from_millis(5)).await;
    client.end(&won, failed("no")).await;
    let ended = client.attempt(won.token).await;
    assert_eq!((ended.status, ended.run_status), (Some(AttemptStatus::Failed), Some(Status::Failed)));
    assert!(ended.ended_at.is_some_and(|at| at >= record.claimed_at + 5), "it took more than 5 ms");
    assert_eq!(ended.error.as_deref(), Some("no"));
    assert_eq!(ended.claimed_at, record.claimed_at);
}

/// Each attempt of a run has its own record, its own end, and the run's status.
pub async fn every_attempt_of_a_run_is_told<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let here = Client::new(fixture).await;
    let there = here.other(fixture, "there").await;
    let slot = here.ago(1000);
    let retry_failed = Some(Duration::from_millis(1));
    let claim = RunClaim { retry_failed, max_attempts: 9, ..here.scheduled(slot) };
    let lost = here.win_and_die(&claim).await;
    let given_back = there.win(&there.takeover(slot)).await;
    there.give_back(&given_back).await;
    let handed_over = there.win(&there.takeover(slot)).await;
    there.hand_over(&handed_over).await;
    let slow = here.win(&here.takeover(slot)).await;
    here.end(&slow, timed_out("too slow")).await;
    here.until_over(&slow.run).await;
    let done = there.win(&there.takeover(slot)).await;
    there.end(&done, Ending::Done).await;
    let told: Vec<_> = here
        .attempts()
        .await
        .into_iter()
        .map(|a| (a.token, a.attempt, a.instance, a.reason, a.status.expect("a status"), a.error, a.run_status))
        .collect();
    let run = Some(Status::Done);
    let tell = |won: &super::support::Won, by: &str, reason, status, error: Option<&str>| {
        (won.token, won.attempt, by.to_owned(), reason, status, error.map(str::to_owned), run)
    };
    assert_eq!(
        told,
        [
            tell(&done, "there", Reason::Retry, AttemptStatus::Done, None),
            tell(&slow, "here", Reason::HandOver, AttemptStatus::TimedOut, Some("too slow")),
            tell(&handed_over, "there", Reason::HandOver, AttemptStatus::HandedOver, None),
            tell(&given_back, "there", Reason::Takeover, AttemptStatus::Returned, None),
            tell(&lost, "here", Reason::Scheduled, AttemptStatus::Lost, None),
        ]
    );
    assert!(here.attempts().await.iter().all(|a| a.ended_at.is_some()));
}

/// The newest slots come first, whatever the order in which they ran, and skipped ones stand among them.
pub async fn the_newest_slot_comes_first<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    for ms in [3000, 9000, 5000, 1000] {
        client.win(&allow(client.scheduled(client.ago(ms)))).await;
    }
    client.claim(&client.scheduled(client.ago(4000))).await;
    let manual = client.manual();
    let (by_hand, _) = client.win_manual(&manual).await;
    let slots = async |limit| -> Vec<_> { client.records(limit).await.iter().map(Record::slot).collect() };
    let expected: Vec<_> =
        [by_hand.slot].into_iter().chain([1000, 3000, 4000, 5000, 9000].map(|ms| client.ago(ms))).collect();
    assert_eq!(slots(100).await, expected);
    for limit in [0, 1, 3, 6] {
        assert_eq!(slots(limit).await, expected[..usize::try_from(limit).expect("a small number")]);
    }
}

/// A job's history is its own, and one that never ran has none.
pub async fn history_is_the_jobs_own<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    client.win(&client.scheduled(client.ago(1000))).await;
    let other = client.on("another job");
    assert_eq!(other.records(10).await, []);
    let won = other.win(&other.scheduled(client.ago(1000))).await;
    assert_eq!(other.attempts().await.len(), 1);
    assert_eq!(other.attempts().await[0].token, won.token);
}

/// Texts that come back must be the ones that went in.
pub(super) fn texts() -> Vec<String> {
    let quotes = r#"it's "quoted" `so` \n \\ \' %s %d {} {0} ${x} $1 $$ ? :name @x -- /* */ ; '; DROP TABLE jobs; --"#;
    let mut long = "ü".repeat(2047);
    long.push_str("ab");
    assert_eq!(long.len(), 4096);
    let texts = [quotes, "𝄞 🦀 é e\u{301} 中文 \u{202e}ltr \u{feff}", " ", "", "null", "0", long.as_str(), "a\\"];
    texts.map(str::to_owned).to_vec()
}

/// Error texts come back word for word: quotes, any letters, 4 KiB of them.
pub async fn error_texts_come_back_word_for_word<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    for (ms, text) in (1..).zip(texts()) {
        let ending = if ms % 2 == 0 { failed(&text) } else { timed_out(&text) };
        let won = client.win(&client.scheduled(client.ago(1000 - ms))).await;
        client.end(&won, ending).await;
        assert_eq!(client.attempt(won.token).await.error.as_deref(), Some(text.as_str()));
    }
}

/// So do instance ids, notes of a pause, and schedule identities.
pub async fn other_texts_come_back_word_for_word<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    for (n, text) in texts().into_iter().enumerate() {
        let client = client.on(&format!("job-{n}"));
        client.pause(&text).await;
        assert_eq!(client.paused().await.expect("a pause").note, text);
        client.resume().await;
        if text.len() > 200 {
            continue; // no schedule is that long
        }
        client.register(&text, &text).await;
        let other = Client { instance: super::support::instance("another"), ..client.clone() };
        let others = other.register(&format!("{text}."), &format!("{text}.")).await.others;
        assert_eq!(others, [(client.instance.to_string(), text)]);
    }
    for (n, id) in ["O'Brien's pod", "🦀-1", "%s {} $1 ?", "a\\b\"c"].into_iter().enumerate() {
        let client = Client { instance: super::support::instance(id), ..client.on(&format!("by-{n}")) };
        let won = client.win(&client.scheduled(client.ago(1000))).await;
        assert_eq!(client.attempt(won.token).await.instance, id);
        assert_eq!(client.active_run(&won.run).await.expect("active").instance, Some(client.instance.clone()));
    }
}
