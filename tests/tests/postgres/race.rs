//! Many instances at once: one winner of each slot, no deadlock, and no call that fails for what others do, whatever the
//! database's own isolation is.

use std::collections::HashMap;
use std::time::Duration;

use anarchon::run::{ClaimOutcome, Registration, Trim};
use anarchon::{Backend as _, LeaseBackend as _, PostgresBackend, Retention, Token};

use crate::place::{POOLED_1_18, POOLED_1_24, Place, V15, V18, run};
use crate::{claim, done, instance, job};

const RACERS: usize = 6;
const JOBS: usize = 12;
const SLOTS: i64 = 25;

async fn race(place: Place, isolation: &str) {
    let Some(database) = place.database() else { return };
    let set = format!("ALTER DATABASE {} SET default_transaction_isolation = '{isolation}'", database.name());
    run(database.url(), set).await;
    PostgresBackend::new(database.url()).connect().await.expect("a connection");
    let racers: Vec<_> = (0..RACERS)
        .map(|racer| {
            let url = database.url().to_owned();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
                runtime.block_on(racer_wins(&url, racer))
            })
        })
        .collect();
    let mut winners: HashMap<(String, i64), Token> = HashMap::new();
    let mut fences: HashMap<String, Vec<u64>> = HashMap::new();
    for racer in racers {
        for (job, slot, fence, token) in racer.join().expect("no panic") {
            let other = winners.insert((job.clone(), slot), token);
            assert!(other.is_none(), "{job} at {slot} has two winners");
            fences.entry(job).or_default().push(fence);
        }
    }
    assert_eq!(winners.len(), JOBS * usize::try_from(SLOTS).expect("a few"), "each slot has a winner");
    for (job, mut fences) in fences {
        let count = fences.len();
        fences.sort_unstable();
        fences.dedup();
        assert_eq!(fences.len(), count, "{job}: a fence was given twice");
    }
}

/// Every call must be answered: an error fails the test.
async fn racer_wins(url: &str, racer: usize) -> Vec<(String, i64, u64, Token)> {
    let backend = PostgresBackend::new(url);
    backend.connect().await.expect("a connection");
    let mut wins = Vec::new();
    for slot in 1..=SLOTS {
        let mut claims: Vec<_> = (0..JOBS).map(|n| claim(&format!("job-{n:02}"), slot * 1000)).collect();
        claims.iter_mut().for_each(|claim| claim.overlap = anarchon::Overlap::Allow);
        // In another order for each, and now and then one by one.
        claims.rotate_left((racer * 5 + usize::try_from(slot).expect("a few")) % JOBS);
        if racer % 2 == 1 {
            claims.reverse();
        }
        let mut answers = Vec::new();
        if (slot + i64::try_from(racer).expect("a few")) % 4 == 0 {
            for claim in &claims {
                answers.push(backend.claim(claim).await);
            }
        } else {
            answers = backend.claim_many(&claims).await;
        }
        let mut ends = Vec::new();
        for (claim, answer) in claims.iter().zip(answers) {
            if let ClaimOutcome::Won { fence, attempt, .. } = answer.expect("an answer").value {
                assert_eq!(attempt, 1);
                wins.push((claim.job.to_string(), claim.slot.ms(), fence.expect("a fence"), claim.token));
                ends.push(done(claim));
            }
        }
        for answer in backend.finish_many(&ends).await {
            answer.expect("an answer");
        }
        // What else goes on at the same time.
        let trims: Vec<Trim> =
            claims.iter().map(|c| Trim::new(c.job.clone(), Retention::new(1000, None), Duration::ZERO)).collect();
        backend.trim(&trims).await.expect("an answer");
        let by = instance(&format!("racer-{racer}"));
        let registrations: Vec<Registration> = claims
            .iter()
            .map(|c| Registration::new(c.job.clone(), "another schedule", "another schedule", by.clone()))
            .collect();
        backend.register(&registrations, Duration::from_secs(86_400)).await.expect("an answer");
        backend.active(&[job("job-01"), job("job-00")]).await.expect("an answer");
    }
    backend.close().await;
    wins
}

#[tokio::test]
async fn one_wins_each_slot_on_15() {
    race(V15, "read committed").await;
}

#[tokio::test]
async fn one_wins_each_slot_where_everything_is_serializable() {
    race(V18, "serializable").await;
}

#[tokio::test]
async fn one_wins_each_slot_where_reads_are_repeatable() {
    race(V15, "repeatable read").await;
}

#[tokio::test]
async fn one_wins_each_slot_behind_an_old_pooler() {
    race(POOLED_1_18, "serializable").await;
}

#[tokio::test]
async fn one_wins_each_slot_behind_a_pooler() {
    race(POOLED_1_24, "repeatable read").await;
}
