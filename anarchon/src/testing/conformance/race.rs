//! Races of many claimants over several clients: one wins, whatever the order.

use std::collections::{HashMap, HashSet};
use std::future::Future;

use super::Fixture;
use super::support::{Client, LONG, Won, instance};
use crate::backend::LeaseBackend;
use crate::option::Overlap;
use crate::run::{
    BeatOutcome, ClaimKind, ClaimOutcome, Ending, FinishOutcome, ManualClaim, ManualOutcome, Reason, RunClaim, Status,
};
use crate::slot::Token;

/// How many clients race.
const CLIENTS: usize = 4;

/// How often a race is run.
const ROUNDS: i64 = 12;

async fn clients<F: Fixture<Backend: LeaseBackend>>(fixture: &F) -> Vec<Client<F::Backend>> {
    let first = Client::new(fixture).await;
    let mut clients = Vec::new();
    for n in 1..CLIENTS {
        clients.push(first.other(fixture, &format!("instance-{n}")).await);
    }
    clients.push(first);
    clients
}

/// Runs them all at once, each as a task of its own.
async fn at_once<T: Send + 'static>(
    racers: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let racers: Vec<_> = racers.into_iter().collect();
    let start = std::sync::Arc::new(tokio::sync::Barrier::new(racers.len()));
    let tasks: Vec<_> = racers
        .into_iter()
        .map(|racer| {
            let start = std::sync::Arc::clone(&start);
            tokio::spawn(async move {
                start.wait().await;
                racer.await
            })
        })
        .collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.expect("a racer"));
    }
    answers
}

/// Sends these claims at once, spread over the clients.
async fn race<B: LeaseBackend>(clients: &[Client<B>], claims: Vec<RunClaim>) -> Vec<(RunClaim, ClaimOutcome)> {
    at_once(claims.into_iter().enumerate().map(|(n, claim)| {
        let client = clients[n % clients.len()].clone();
        async move {
            let outcome = client.claim(&claim).await;
            (claim, outcome)
        }
    }))
    .await
}

fn won(outcome: &ClaimOutcome) -> bool {
    matches!(outcome, ClaimOutcome::Won { .. })
}

/// Every slot has exactly one winner, and the store knows it; the others become backups.
pub async fn every_slot_has_exactly_one_winner<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let clients = clients(fixture).await;
    let claimants = (0..CLIENTS * 2).map(|n| {
        let client = clients[n % CLIENTS].clone();
        async move {
            let mut wins = Vec::new();
            for ms in 0..20 {
                let kind = if n % 2 == 0 { ClaimKind::Scheduled } else { ClaimKind::CatchUp };
                let slot = client.ago(1000 + (ms + i64::try_from(n).expect("small") * 5) % 20);
                let claim = RunClaim { kind, overlap: Overlap::Allow, ..client.scheduled(slot) };
                match client.claim(&claim).await {
                    ClaimOutcome::Won { attempt: 1, fence, .. } => wins.push((slot, claim.token, fence)),
                    ClaimOutcome::Running { .. } => {}
                    other => panic!("won or running, but {other:?}"),
                }
            }
            wins
        }
    });
    let wins: Vec<_> = at_once(claimants).await.into_iter().flatten().collect();
    let slots: HashSet<_> = wins.iter().map(|(slot, ..)| *slot).collect();
    assert_eq!((wins.len(), slots.len()), (20, 20), "one winner per slot");
    assert_eq!(wins.iter().map(|(.., fence)| fence).collect::<HashSet<_>>().len(), 20, "no fence twice");
    let told: HashMap<_, _> =
        clients[0].attempts().await.into_iter().map(|a| (a.run.slot, (a.token, a.fence))).collect();
    for (slot, token, fence) in wins {
        assert_eq!(told[&slot], (token, fence), "the store knows the winner of {slot}");
    }
}

/// Copies of one claim that race each other all win, the same attempt.
pub async fn copies_of_one_claim_win_together<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let clients = clients(fixture).await;
    for round in 0..ROUNDS {
        let claim = RunClaim { overlap: Overlap::Allow, ..clients[0].scheduled(clients[0].ago(1000 + round)) };
        let answers = race(&clients, vec![claim.clone(); CLIENTS * 2]).await;
        assert!(answers.iter().all(|(_, outcome)| won(outcome) && *outcome == answers[0].1), "{answers:?}");
    }
    assert_eq!(clients[0].attempts().await.len(), usize::try_from(ROUNDS).expect("small"));
}

/// Of two slots of one job under `skip`, raced by many, one runs and the other is skipped.
pub async fn two_slots_under_skip_never_both_run<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let clients = clients(fixture).await;
    for round in 0..ROUNDS {
        let clients: Vec<_> = clients.iter().map(|c| c.on(&format!("round-{round}"))).collect();
        let claims =
            (0..CLIENTS * 2).map(|n| clients[n % CLIENTS].scheduled(clients[0].ago([1000, 2000][n / CLIENTS])));
        let answers = race(&clients, claims.collect()).await;
        let winners: Vec<_> = answers.iter().filter(|(_, outcome)| won(outcome)).collect();
        assert_eq!(winners.len(), 1, "{answers:?}");
        assert_eq!(clients[0].active().await.len(), 1);
        let skips = clients[0].skips().await;
        assert_eq!(skips.iter().map(|s| s.count).sum::<u64>(), 1, "{skips:?}");
        assert_ne!(skips[0].last, winners[0].0.slot);
    }
}

/// A dead run is taken over by exactly one.
pub async fn a_dead_run_is_taken_over_by_exactly_one<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let clients = clients(fixture).await;
    for round in 0..ROUNDS {
        let clients: Vec<_> = clients.iter().map(|c| c.on(&format!("round-{round}"))).collect();
        let dead = clients[0].win(&clients[0].scheduled(clients[0].ago(1000))).await;
        clients[0].hand_over(&dead).await;
        let answers = race(&clients, clients.iter().chain(&clients).map(|c| c.takeover(dead.run.slot)).collect()).await;
        let winners: Vec<_> = answers.iter().filter(|(_, outcome)| won(outcome)).collect();
        assert_eq!(winners.len(), 1, "{answers:?}");
        assert!(matches!(winners[0].1, ClaimOutcome::Won { attempt: 2, reason: Reason::HandOver, .. }));
        assert_eq!(clients[0].attempts().await.len(), 2);
    }
}

/// Of two dead runs of one job under `skip`, raced by many, one is taken over at a time.
pub async fn two_dead_runs_under_skip_are_never_both_taken_over<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let clients = clients(fixture).await;
    for round in 0..ROUNDS {
        let clients: Vec<_> = clients.iter().map(|c| c.on(&format!("round-{round}"))).collect();
        let here = &clients[0];
        for ms in [1000, 2000] {
            let claim = RunClaim { overlap: Overlap::Allow, ..here.scheduled(here.ago(ms)) };
            here.hand_over(&here.win(&claim).await).await;
        }
        let claims = (0..CLIENTS * 2).map(|n| clients[n % CLIENTS].takeover(here.ago([1000, 2000][n / CLIENTS])));
        let answers = race(&clients, claims.collect()).await;
        assert_eq!(answers.iter().filter(|(_, outcome)| won(outcome)).count(), 1, "{answers:?}");
    }
}

/// The end of a late runner and a takeover exclude each other.
pub async fn a_late_finish_and_a_takeover_exclude_each_other<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let clients = clients(fixture).await;
    for round in 0..ROUNDS {
        let clients: Vec<_> = clients.iter().map(|c| c.on(&format!("round-{round}"))).collect();
        let late = clients[0].win_and_die(&clients[0].scheduled(clients[0].ago(1000))).await;
        let answers = at_once((0..CLIENTS).map(|n| {
            let (client, late) = (clients[n].clone(), late.clone());
            async move {
                if n == 0 {
                    (Some(client.finish(&late, Ending::Done).await), None)
                } else {
                    (None, Some(client.claim(&client.takeover(late.run.slot)).await))
                }
            }
        }))
        .await;
        let recorded = matches!(answers[0].0, Some(FinishOutcome::Recorded { run: Status::Done, .. }));
        let taken = answers.iter().filter(|(_, outcome)| outcome.as_ref().is_some_and(won)).count();
        assert_eq!(taken, usize::from(!recorded), "{answers:?}");
    }
}

/// Exclusive manual runs and slots under `skip`, raced by many: one runs.
pub async fn exclusive_manual_runs_and_slots_never_both_run<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let clients = clients(fixture).await;
    for round in 0..ROUNDS {
        let wins = at_once((0..CLIENTS * 2).map(|n| {
            let client = clients[n % CLIENTS].on(&format!("round-{round}"));
            async move {
                if n / CLIENTS == 0 {
                    let claim = ManualClaim { exclusive: true, ..client.manual() };
                    return matches!(client.claim_manual(&claim).await, ManualOutcome::Won { .. });
                }
                won(&client.claim(&client.scheduled(client.ago(1000 + i64::from(n % 2 == 0)))).await)
            }
        }))
        .await;
        assert_eq!(wins.iter().filter(|won| **won).count(), 1, "{wins:?}");
        assert_eq!(clients[0].on(&format!("round-{round}")).active().await.len(), 1);
    }
}

/// Copies of one manual claim that race each other start one run.
pub async fn copies_of_one_manual_claim_start_one_run<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let clients = clients(fixture).await;
    for round in 0..ROUNDS {
        let claim = ManualClaim { exclusive: round % 2 == 0, ..clients[0].on(&format!("round-{round}")).manual() };
        let runs = at_once(clients.iter().cloned().map(|client| {
            let claim = claim.clone();
            async move { client.win_manual(&claim).await }
        }))
        .await;
        assert!(runs.iter().all(|run| *run == runs[0]), "{runs:?}");
        assert_eq!(clients[0].on(&format!("round-{round}")).attempts().await.len(), 1);
    }
}

/// Batches that race each other over the same jobs win each job once.
pub async fn racing_batches_win_each_job_once<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let clients = clients(fixture).await;
    for round in 0..3 {
        let answers = at_once(clients.iter().cloned().map(|client| async move {
            let slot = client.ago(1000 + round);
            let claims: Vec<_> = (0..64)
                .map(|n| RunClaim { overlap: Overlap::Allow, ..client.on(&format!("job-{n:02}")).scheduled(slot) })
                .collect();
            super::many::values(client.store.claim_many(&claims).await)
        }))
        .await;
        for job in 0..64 {
            let outcomes: Vec<_> = answers.iter().map(|batch| &batch[job]).collect();
            assert_eq!(outcomes.iter().filter(|outcome| won(outcome)).count(), 1, "job {job}: {outcomes:?}");
        }
    }
}

/// Each won claim of a job has a greater fence than all before: slots in any order, takeovers, hand-overs, manual runs,
/// from any client; winning again keeps it.
pub async fn fences_grow_with_every_win<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let clients = clients(fixture).await;
    let mut last = 0;
    let mut grows = |fence: u64| {
        assert!(fence > last, "{fence} after {last}");
        last = fence;
    };
    for (n, client) in (0..).zip(clients.iter().cycle().take(12)) {
        let client = Client { instance: instance(&format!("instance-{n}")), ..client.clone() };
        let claim = client.scheduled(client.ago(1000 + (n * 7) % 12));
        let claim = RunClaim { overlap: Overlap::Allow, ..claim };
        let first: Won = client.win(&claim).await;
        grows(first.fence);
        assert_eq!(client.win(&claim).await.fence, first.fence);
        if n % 2 == 0 {
            client.give_back(&first).await
        } else {
            client.hand_over(&first).await
        };
        let (_, fence) = client.win_manual(&client.manual()).await;
        grows(fence.expect("a fence"));
        let second = client.win(&RunClaim { overlap: Overlap::Allow, ..client.takeover(first.run.slot) }).await;
        grows(second.fence);
        assert_eq!(client.beat(&second, LONG).await, BeatOutcome::Alive);
        client.end(&second, Ending::Done).await;
    }
    assert!(clients[0].attempts().await.iter().all(|a| a.token != Token::from_random_bytes([0; 16])));
}
