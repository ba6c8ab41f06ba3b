//! Many at once: each answer is the one that its call alone would have got, in the order of the calls.

use std::time::Duration;

use super::Fixture;
use super::support::{Client, LONG, Won, failed};
use crate::backend::{Backend as _, LeaseBackend};
use crate::error::BackendError;
use crate::option::Overlap;
use crate::run::{
    AttemptStatus, Beat, BeatOutcome, ClaimOutcome, Ending, Finish, FinishOutcome, Lateness, Release, ReleaseOutcome,
    RunClaim, Status, Timed,
};
use crate::slot::Token;

/// What a call got, without how long something lasts.
#[derive(Clone, Debug, PartialEq)]
enum Got {
    Early,
    Won(u32),
    Done(Status),
    Running,
    Paused(bool),
    Overlap(bool),
    Gone,
    Late(Lateness),
}

fn got(outcome: &ClaimOutcome) -> Got {
    match outcome {
        ClaimOutcome::Early { .. } => Got::Early,
        ClaimOutcome::Won { attempt, .. } => Got::Won(*attempt),
        ClaimOutcome::Done { status } => Got::Done(*status),
        ClaimOutcome::Running { .. } => Got::Running,
        ClaimOutcome::Paused { recorded } => Got::Paused(*recorded),
        ClaimOutcome::Overlap { recorded, .. } => Got::Overlap(*recorded),
        ClaimOutcome::Gone => Got::Gone,
        ClaimOutcome::Late(lateness) => Got::Late(*lateness),
    }
}

pub(super) fn values<T>(answers: Vec<Result<Timed<T>, BackendError>>) -> Vec<T> {
    answers.into_iter().map(|answer| answer.expect("an answer").value).collect()
}

/// Brings a job into the `n`th of ten situations, and gives the claim to send then and what it must get.
async fn situation<B: LeaseBackend>(client: &Client<B>, n: usize) -> (RunClaim, Got) {
    let slot = client.ago(1000);
    let before = client.ago(9000);
    match n % 10 {
        0 => (client.scheduled(slot), Got::Won(1)),
        1 => {
            client.win(&client.scheduled(slot)).await;
            (client.takeover(slot), Got::Running)
        }
        2 => {
            let won = client.win(&client.scheduled(slot)).await;
            client.end(&won, failed("no")).await;
            (client.scheduled(slot), Got::Done(Status::Failed))
        }
        3 => {
            client.pause("").await;
            (client.scheduled(slot), Got::Paused(true))
        }
        4 => (client.scheduled(client.ago(-3_600_000)), Got::Early),
        5 => (client.takeover(slot), Got::Gone),
        6 => {
            let claim = RunClaim { limit: Duration::from_secs(1), ..client.scheduled(client.ago(60_000)) };
            (claim, Got::Late(Lateness::TooOld))
        }
        7 => {
            let claim = client.scheduled(slot);
            client.win(&claim).await;
            (claim, Got::Won(1))
        }
        8 => {
            let won = client.win(&client.scheduled(slot)).await;
            client.hand_over(&won).await;
            (client.takeover(slot), Got::Won(2))
        }
        _ => {
            client.win(&client.scheduled(before)).await;
            (client.scheduled(slot), Got::Overlap(true))
        }
    }
}

/// A hundred claims of as many jobs, of every kind, are answered as one at a time, and do as much.
pub async fn many_claims_are_answered_as_one_at_a_time<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let (mut claims, mut expected) = (Vec::new(), Vec::new());
    for n in 0..100 {
        let (claim, got) = situation(&client.on(&format!("job-{n:03}")), n).await;
        claims.push(claim);
        expected.push(got);
    }
    let answers = values(client.store.claim_many(&claims).await);
    assert_eq!(answers.iter().map(got).collect::<Vec<_>>(), expected);
    for (claim, answer) in claims.iter().zip(&answers) {
        let client = client.on(claim.job.as_str());
        let history = client.attempts().await;
        let won = history.iter().find(|a| a.token == claim.token);
        let ClaimOutcome::Won { attempt, fence, reason, .. } = answer else {
            assert_eq!(won, None, "{answer:?} starts nothing");
            assert_eq!(
                client.skips().await.len(),
                usize::from(matches!(got(answer), Got::Paused(true) | Got::Overlap(true)))
            );
            continue;
        };
        let won = won.expect("a won attempt is told");
        assert_eq!((won.attempt, won.fence, won.reason), (*attempt, *fence, *reason));
    }
    let again = values(client.store.claim_many(&claims).await);
    for ((first, again), claim) in answers.iter().zip(&again).zip(&claims) {
        match first {
            ClaimOutcome::Won { .. } => assert_eq!(again, first, "{claim:?}"),
            ClaimOutcome::Paused { .. } | ClaimOutcome::Overlap { .. } => {
                assert_eq!(*again, ClaimOutcome::Done { status: Status::Skipped });
            }
            _ => assert_eq!(got(again), got(first)),
        }
    }
}

/// Batches of a size that no store would choose for itself.
pub async fn a_batch_of_one_and_of_none_are_batches<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    assert_eq!(values(client.store.claim_many(&[]).await), []);
    assert_eq!(values(client.store.heartbeat_many(&[]).await), []);
    assert_eq!(values(client.store.finish_many(&[]).await), []);
    assert_eq!(values(client.store.release_many(&[]).await), []);
    client.trim_none().await;
    let claim = client.scheduled(client.ago(1000));
    let one = values(client.store.claim_many(std::slice::from_ref(&claim)).await);
    assert_eq!(one.iter().map(got).collect::<Vec<_>>(), [Got::Won(1)]);
    let beat = [Beat::new(claim.key(), claim.token, LONG)];
    assert_eq!(values(client.store.heartbeat_many(&beat).await), [BeatOutcome::Alive]);
    let finish = [client.finish_of(&claim.key(), claim.token, Ending::Done)];
    let recorded = FinishOutcome::Recorded { run: Status::Done, retry_in: None };
    assert_eq!(values(client.store.finish_many(&finish).await), [recorded]);
}

impl<B: crate::backend::Backend> Client<B> {
    async fn trim_none(&self) {
        self.store.trim(&[]).await.expect("trimming nothing");
    }
}

/// Runs of a hundred jobs, and several of one, all of them live.
async fn live_runs<B: LeaseBackend>(client: &Client<B>) -> Vec<Won> {
    let mut runs = Vec::new();
    for n in 0..80 {
        let client = client.on(&format!("job-{n:03}"));
        runs.push(client.win(&client.scheduled(client.ago(1000))).await);
    }
    for n in 0..20 {
        let claim = RunClaim { overlap: Overlap::Allow, ..client.scheduled(client.ago(1000 + n)) };
        runs.push(client.win(&claim).await);
    }
    runs
}

/// A hundred heartbeats: the live ones live on, the others are lost, and no answer is another's.
pub async fn many_heartbeats_are_answered_as_one_at_a_time<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let runs = live_runs(&client).await;
    let (mut beats, mut expected) = (Vec::new(), Vec::new());
    for (n, won) in runs.iter().enumerate().rev() {
        let foreign = n % 4 == 1;
        let token = if foreign { Token::random() } else { won.token };
        if n % 4 == 3 {
            client.end(won, Ending::Done).await;
        }
        beats.push(Beat::new(won.run.clone(), token, Duration::from_secs(600)));
        expected.push(if n % 2 == 1 { BeatOutcome::Lost } else { BeatOutcome::Alive });
    }
    assert_eq!(values(client.store.heartbeat_many(&beats).await), expected);
    for (n, won) in runs.iter().enumerate() {
        let client = client.on(won.run.job.as_str());
        match n % 4 {
            3 => assert_eq!(client.active_run(&won.run).await, None),
            1 => assert!(client.left(&won.run).await <= LONG, "a foreign beat renews nothing"),
            _ => assert!(client.left(&won.run).await > Duration::from_secs(300), "renewed"),
        }
    }
}

/// A hundred ends, each recorded with its own text; foreign tokens are lost, and a packet twice in one batch is one.
pub async fn many_finishes_are_answered_as_one_at_a_time<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let runs = live_runs(&client).await;
    let ending = |n: usize| match n % 4 {
        0 => Ending::Done,
        1 => failed(&format!("'{n}' \"failed\"; --")),
        2 => Ending::TimedOut(format!("{n} 🦀")),
        _ => Ending::Done,
    };
    let (mut finishes, mut expected) = (Vec::new(), Vec::new());
    for (n, won) in runs.iter().enumerate().rev() {
        let finish = client.finish_of(&won.run, won.token, ending(n));
        let run = match n % 4 {
            1 => Status::Failed,
            2 => Status::TimedOut,
            _ => Status::Done,
        };
        if n % 4 == 3 {
            finishes.push(Finish { token: Token::random(), ..finish });
            expected.push(FinishOutcome::Lost);
        } else {
            finishes.push(finish);
            expected.push(FinishOutcome::Recorded { run, retry_in: None });
        }
    }
    finishes.push(finishes[99].clone());
    expected.push(expected[99]);
    for _ in 0..2 {
        assert_eq!(values(client.store.finish_many(&finishes).await), expected);
    }
    for (n, won) in runs.iter().enumerate() {
        let client = client.on(won.run.job.as_str());
        let record = client.attempt(won.token).await;
        if n % 4 == 3 {
            assert_eq!(record.status, Some(AttemptStatus::Running));
        } else {
            assert_eq!((record.status, record.error.as_deref()), (Some(ending(n).status()), ending(n).error()));
        }
    }
}

/// A hundred releases, of both kinds.
pub async fn many_releases_are_answered_as_one_at_a_time<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let runs = live_runs(&client).await;
    let (mut releases, mut expected) = (Vec::new(), Vec::new());
    for (n, won) in runs.iter().enumerate().rev() {
        let token = if n % 3 == 2 { Token::random() } else { won.token };
        releases.push(Release { run: won.run.clone(), token, returned: n % 3 == 1 });
        expected.push(if n % 3 == 2 { ReleaseOutcome::Lost } else { ReleaseOutcome::Released });
    }
    for _ in 0..2 {
        assert_eq!(values(client.store.release_many(&releases).await), expected);
    }
    for (n, won) in runs.iter().enumerate() {
        let status = client.on(won.run.job.as_str()).status(won).await;
        let expected = [AttemptStatus::HandedOver, AttemptStatus::Returned, AttemptStatus::Running][n % 3];
        assert_eq!(status, expected);
    }
}
