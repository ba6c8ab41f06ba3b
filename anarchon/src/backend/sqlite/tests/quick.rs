//! The quick way of claims beside the other one: what each writes, and that a batch may go both.

use std::time::Duration;

use super::support::{Directory, Store, store_at};
use crate::backend::{Backend as _, LeaseBackend as _, SqliteDialect};
use crate::run::{ClaimKind, ClaimOutcome, Ending, Finish, Lateness, Pause, Reason, RunClaim, Status};
use crate::slot::{InstanceId, JobName, Slot, Token};
use crate::testing::differential::HandClocked as _;

const NOW: i64 = 10_000_000;

fn claim(name: &str, slot: i64) -> RunClaim {
    let (job, instance) = (JobName::new(name).unwrap(), InstanceId::new("one").unwrap());
    let mut claim = RunClaim::new(job, Slot::from_ms(slot), Token::random(), instance);
    claim.limit = Duration::from_secs(100_000);
    claim
}

/// Claims and ends a run, so that nothing is new about its job and nothing in the way.
async fn run(store: &Store, claim: &RunClaim) {
    let outcome = store.claim(claim).await.unwrap().value;
    assert!(matches!(outcome, ClaimOutcome::Won { .. }), "{outcome:?}");
    store.finish(&Finish::new(claim.key(), claim.token, Ending::Done, claim.instance.clone(), 0)).await.unwrap();
}

/// How many pages the write-ahead log holds: each has a header of 24 bytes, and the log one of 32.
fn pages(directory: &Directory) -> u64 {
    std::fs::metadata(directory.file("pages.db-wal")).unwrap().len().saturating_sub(32) / (4096 + 24)
}

#[tokio::test]
async fn a_claim_that_is_won_writes_three_pages_and_one_that_is_lost_writes_none() {
    let directory = Directory::new();
    let store = store_at(&directory.file("pages.db"), SqliteDialect::new(), NOW).await;
    run(&store, &claim("a", NOW - 3)).await;
    let before = pages(&directory);
    store.claim(&claim("a", NOW - 2)).await.unwrap();
    // The run, its place among the unfinished ones, and the fence.
    assert_eq!(pages(&directory) - before, 3);
    let before = pages(&directory);
    let lost = store.claim(&claim("a", NOW - 2)).await.unwrap().value;
    assert!(matches!(lost, ClaimOutcome::Running { .. }), "{lost:?}");
    assert_eq!(pages(&directory), before);
}

#[tokio::test]
async fn claims_of_one_batch_are_answered_each_in_its_own_way() {
    let directory = Directory::new();
    let store = store_at(&directory.file("ways.db"), SqliteDialect::new(), NOW).await;
    for name in ["start", "held", "ended", "early", "old", "paused", "again", "blocked", "dead"] {
        run(&store, &claim(name, NOW - 100)).await;
    }
    let slot = NOW - 10;
    run(&store, &claim("ended", slot)).await;
    let again = claim("again", slot);
    for held in [&claim("held", slot), &again, &claim("blocked", NOW - 20)] {
        store.claim(held).await.unwrap();
    }
    let pause = Pause::new("somebody", "a look");
    store.set_paused(&JobName::new("paused").unwrap(), Some(&pause)).await.unwrap();
    // The one of `dead` is over and out of attempts when the batch comes.
    let last = RunClaim { max_attempts: 1, lease: Duration::from_millis(1), ..claim("dead", NOW - 30) };
    store.claim(&last).await.unwrap();
    store.set_clock(NOW + 1).await;
    let mut too_old = claim("old", slot);
    too_old.limit = Duration::from_millis(5);
    let batch = [
        again,
        claim("blocked", slot),
        claim("dead", slot),
        claim("early", NOW + 5_000),
        claim("ended", slot),
        claim("held", slot),
        claim("new", slot),
        too_old,
        claim("paused", slot),
        claim("start", slot),
    ];
    let answers = store.claim_many(&batch).await;
    let outcomes: Vec<ClaimOutcome> = answers.into_iter().map(|answer| answer.unwrap().value).collect();
    let won =
        |outcome: &ClaimOutcome| matches!(outcome, ClaimOutcome::Won { attempt: 1, reason: Reason::Scheduled, .. });
    assert!(won(&outcomes[0]), "{:?}", outcomes[0]);
    assert!(matches!(outcomes[1], ClaimOutcome::Overlap { recorded: true, .. }), "{:?}", outcomes[1]);
    assert!(won(&outcomes[2]), "{:?}", outcomes[2]);
    assert_eq!(outcomes[3], ClaimOutcome::Early { wait: Duration::from_millis(4_999) });
    assert_eq!(outcomes[4], ClaimOutcome::Done { status: Status::Done });
    assert!(matches!(outcomes[5], ClaimOutcome::Running { .. }), "{:?}", outcomes[5]);
    assert!(won(&outcomes[6]), "{:?}", outcomes[6]);
    assert_eq!(outcomes[7], ClaimOutcome::Late(Lateness::TooOld));
    assert_eq!(outcomes[8], ClaimOutcome::Paused { recorded: true });
    assert!(won(&outcomes[9]), "{:?}", outcomes[9]);
    // Nothing of it is left over for the next call.
    let alone = store.claim(&claim("ended", NOW - 5)).await.unwrap().value;
    assert!(won(&alone), "{alone:?}");
    let closed = store.claim(&last).await.unwrap().value;
    assert_eq!(closed, ClaimOutcome::Done { status: Status::Dead });
}

fn fence(outcome: &ClaimOutcome) -> u64 {
    match outcome {
        ClaimOutcome::Won { fence, .. } => fence.unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn fences_of_a_job_grow_whichever_way_its_claims_go() {
    let directory = Directory::new();
    let file = directory.file("fences.db");
    let store = store_at(&file, SqliteDialect::new(), NOW).await;
    let without_session = store_at(&file, SqliteDialect::new().without_sessions(), NOW).await;
    run(&store, &claim("a", NOW - 500)).await;
    run(&store, &claim("b", NOW - 500)).await;
    let mut fences = Vec::new();
    let mut last = 400;
    for round in 0..3 {
        // A clock that goes back gives no fence twice.
        store.set_clock(NOW - 10 * round).await;
        for one in [&store, &without_session] {
            last -= 10;
            // The quick way, for several jobs at once; only `b` is claimed alone as well, so the one fence of all is higher.
            let batch = [claim("a", NOW - last), claim("b", NOW - last)];
            let answers: Vec<_> =
                one.claim_many(&batch).await.into_iter().map(|answer| answer.unwrap().value).collect();
            fences.push(fence(&answers[0]));
            let brief = RunClaim { lease: Duration::from_millis(1), ..claim("b", NOW - last + 1) };
            let end = |claim: &RunClaim| Finish::new(claim.key(), claim.token, Ending::Done, claim.instance.clone(), 0);
            for claimed in &batch {
                one.finish(&end(claimed)).await.unwrap();
            }
            one.claim(&brief).await.unwrap();
            // The other way: its lease is over, so it is taken over.
            store.set_clock(NOW - 10 * round + 5).await;
            let taken = RunClaim { kind: ClaimKind::Takeover, token: Token::random(), ..brief.clone() };
            let of_b = fence(&one.claim(&taken).await.unwrap().value);
            assert!(of_b > fence(&answers[1]), "{of_b} after {answers:?}");
            one.finish(&end(&taken)).await.unwrap();
            let next = RunClaim { lease: Duration::from_millis(1), ..claim("b", NOW - last + 2) };
            let later = fence(&one.claim(&next).await.unwrap().value);
            assert!(later > of_b, "{later} after {of_b}");
            one.finish(&end(&next)).await.unwrap();
            store.set_clock(NOW - 10 * round).await;
        }
    }
    assert!(fences.windows(2).all(|pair| pair[0] < pair[1]), "{fences:?}");
}

#[tokio::test]
async fn claims_on_other_terms_go_together_and_each_is_won_on_its_own() {
    let directory = Directory::new();
    let store = store_at(&directory.file("terms.db"), SqliteDialect::new(), NOW).await;
    let jobs = ["a", "b", "c", "d", "e"];
    for name in jobs {
        run(&store, &claim(name, NOW - 100)).await;
    }
    let mut batch: Vec<RunClaim> = jobs.iter().map(|name| claim(name, NOW - 10)).collect();
    batch[1].lease = Duration::from_secs(40);
    batch[2].kind = ClaimKind::CatchUp;
    batch[3].slot = Slot::from_ms(NOW - 9);
    batch[3].max_attempts = 7;
    let answers = store.claim_many(&batch).await;
    for (claim, answer) in batch.iter().zip(answers) {
        let reason = if claim.kind == ClaimKind::CatchUp { Reason::CatchUp } else { Reason::Scheduled };
        match answer.unwrap().value {
            ClaimOutcome::Won { attempt: 1, reason: found, max_attempts, .. } => {
                assert_eq!((found, max_attempts), (reason, claim.max_attempts), "{}", claim.job);
            }
            other => panic!("{}: {other:?}", claim.job),
        }
    }
    for claim in &batch {
        let active = store.active(std::slice::from_ref(&claim.job)).await.unwrap().value;
        let left: Vec<_> = active.iter().map(|run| (run.run.slot, run.left)).collect();
        assert_eq!(left, [(claim.slot, claim.lease)], "{}", claim.job);
    }
}
