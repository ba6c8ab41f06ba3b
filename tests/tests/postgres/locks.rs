//! Rows that somebody else has locked: nobody waits for them, and they count as alive.

use std::time::Duration;

use anarchon::run::{Beat, BeatOutcome, ClaimOutcome, ManualClaim, ManualOutcome, Release};
use anarchon::{Backend as _, BackendErrorKind, LeaseBackend as _, Overlap, PostgresBackend, Token};
use sqlx::{Connection as _, Executor as _, PgConnection, Row as _};

use crate::place::{POOLED_1_24, V15, V18};
use crate::{claim, claims, done, rival, won};

#[tokio::test]
async fn a_locked_run_is_alive_and_nobody_waits_for_it() {
    for place in [V15, V18, POOLED_1_24] {
        let Some(database) = place.database() else { return };
        let backend = PostgresBackend::new(database.url());
        backend.connect().await.expect("a connection");
        let mut asked = claims("job", 3, 1);
        // One more attempt is left when the lease is over, which it is at once.
        asked.iter_mut().for_each(|claim| claim.lease = Duration::from_millis(1));
        for answer in backend.claim_many(&asked).await {
            assert!(won(&answer.expect("an answer").value));
        }
        let mut user = PgConnection::connect(database.url()).await.expect("a connection");
        let mut transaction = user.begin().await.expect("a transaction");
        let lock = "SELECT 1 FROM anarchon_runs WHERE job = 'job-001' FOR UPDATE";
        transaction.execute(lock).await.expect("a lock");

        let again: Vec<_> = asked.iter().map(rival).collect();
        let running = ClaimOutcome::Running { left: Duration::ZERO };
        assert_eq!(backend.claim(&again[1]).await.expect("an answer").value, running, "{place:?}");
        let answers = backend.claim_many(&again).await;
        for (n, answer) in answers.into_iter().enumerate() {
            let outcome = answer.expect("an answer").value;
            match n {
                1 => assert_eq!(outcome, running, "{place:?}"),
                _ => assert!(matches!(outcome, ClaimOutcome::Won { attempt: 2, .. }), "{place:?}: {outcome:?}"),
            }
        }
        // It blocks other slots, although its lease is over.
        let other = backend.claim(&claim("job-001", 2)).await.expect("an answer").value;
        assert!(matches!(other, ClaimOutcome::Overlap { recorded: true, .. }), "{other:?}");
        let beats: Vec<Beat> = [&again[0], &asked[1], &again[2]]
            .into_iter()
            .map(|c| Beat::new(c.key(), c.token, Duration::from_secs(15)))
            .collect();
        let outcomes: Vec<BeatOutcome> =
            backend.heartbeat_many(&beats).await.into_iter().map(|a| a.expect("an answer").value).collect();
        // The others' leases are over again, or not; what matters is that nobody waited.
        assert_eq!(outcomes[1], BeatOutcome::Locked, "{place:?}: {outcomes:?}");

        transaction.rollback().await.expect("a rollback");
        assert!(won(&backend.claim(&rival(&asked[1])).await.expect("an answer").value));
    }
}

#[tokio::test]
async fn heartbeats_do_not_wait_behind_a_claim_that_waits() {
    for place in [V15, POOLED_1_24] {
        let Some(database) = place.database() else { return };
        let backend = PostgresBackend::new(database.url());
        backend.connect().await.expect("a connection");
        let (a, b) = (claim("a", 1), claim("b", 1));
        assert!(won(&backend.claim(&a).await.expect("an answer").value));
        assert!(won(&backend.claim(&b).await.expect("an answer").value));
        backend.finish(&done(&b)).await.expect("an answer");
        let mut user = PgConnection::connect(database.url()).await.expect("a connection");
        let mut transaction = user.begin().await.expect("a transaction");
        let lock = "SELECT 1 FROM anarchon_runs_jobs WHERE job = 'b' AND ident = '' FOR UPDATE";
        transaction.execute(lock).await.expect("a lock");
        let next = claim("b", 2);
        let waiting = backend.claim(&next);
        let beat = Beat::new(a.key(), a.token, Duration::from_secs(15));
        let beaten = async {
            for _ in 0..10 {
                assert_eq!(backend.heartbeat(&beat).await.expect("an answer").value, BeatOutcome::Alive);
            }
            transaction.rollback().await.expect("a rollback");
        };
        let (waited, ()) = tokio::join!(waiting, beaten);
        assert!(won(&waited.expect("an answer").value));
        backend.release(&Release::hand_over(a.key(), a.token)).await.expect("an answer");
    }
}

#[tokio::test]
async fn a_finish_or_release_of_a_locked_run_gives_up_and_leaves_no_process_waiting() {
    for place in [V15, V18, POOLED_1_24] {
        let Some(database) = place.database() else { return };
        let backend = PostgresBackend::new(database.url());
        backend.connect().await.expect("a connection");
        let asked = claim("a", 1);
        assert!(won(&backend.claim(&asked).await.expect("an answer").value));
        let mut user = PgConnection::connect(database.url()).await.expect("a connection");
        let mut transaction = user.begin().await.expect("a transaction");
        let lock = "SELECT 1 FROM anarchon_runs WHERE job = 'a' FOR UPDATE";
        transaction.execute(lock).await.expect("a lock");

        let generous = Duration::from_secs(60);
        let ended = tokio::time::timeout(generous, backend.finish(&done(&asked))).await.expect("it gives up");
        let error = ended.expect_err("the row is locked");
        assert_eq!(error.kind(), BackendErrorKind::Busy, "{place:?}: {error}");
        let release = Release::hand_over(asked.key(), asked.token);
        let ended = tokio::time::timeout(generous, backend.release(&release)).await.expect("it gives up");
        let error = ended.expect_err("the row is locked");
        assert_eq!(error.kind(), BackendErrorKind::Busy, "{place:?}: {error}");
        let waiting = "SELECT count(*) FROM pg_stat_activity \
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let waiting: i64 = transaction.fetch_one(waiting).await.expect("a count").get(0);
        assert_eq!(waiting, 0, "{place:?}");

        transaction.rollback().await.expect("a rollback");
        backend.finish(&done(&asked)).await.expect("nothing is in the way");
    }
}

#[tokio::test]
async fn a_locked_run_that_could_be_taken_over_is_in_the_way_of_what_would_not_overlap() {
    let Some(database) = V18.database() else { return };
    let backend = PostgresBackend::new(database.url());
    backend.connect().await.expect("a connection");
    let mut asked = claim("a", 1);
    asked.lease = Duration::from_millis(1);
    // Its lease is over at once, and it is not closed for long: another may take it over.
    asked.takeover_within = Duration::from_secs(100_000_000_000);
    assert!(won(&backend.claim(&asked).await.expect("an answer").value));
    let mut manual = ManualClaim::new(asked.job.clone(), Token::random(), asked.instance.clone(), 0);
    manual.exclusive = true;
    let mut user = PgConnection::connect(database.url()).await.expect("a connection");
    let mut transaction = user.begin().await.expect("a transaction");
    let lock = "SELECT 1 FROM anarchon_runs WHERE job = 'a' FOR UPDATE";
    transaction.execute(lock).await.expect("a lock");
    let outcome = backend.claim_manual(&manual).await.expect("an answer").value;
    assert_eq!(outcome, ManualOutcome::Overlap);
    transaction.rollback().await.expect("a rollback");
    manual.token = Token::random();
    let outcome = backend.claim_manual(&manual).await.expect("an answer").value;
    assert!(matches!(outcome, ManualOutcome::Won { .. }), "{outcome:?}");
}

/// One that nobody holds, and whose lease is over, would not be.
#[tokio::test]
async fn a_locked_run_is_in_the_way_of_the_takeover_of_another() {
    for place in [V15, V18] {
        let Some(database) = place.database() else { return };
        let backend = PostgresBackend::new(database.url());
        backend.connect().await.expect("a connection");
        let [first, second] = [1, 2].map(|slot| {
            let mut asked = claim("a", slot);
            asked.overlap = Overlap::Allow;
            asked.lease = Duration::from_millis(1);
            asked.takeover_within = Duration::from_secs(100_000_000_000);
            asked
        });
        assert!(won(&backend.claim(&first).await.expect("an answer").value));
        assert!(won(&backend.claim(&second).await.expect("an answer").value));
        let mut asked = rival(&second);
        asked.overlap = Overlap::Skip;
        let mut user = PgConnection::connect(database.url()).await.expect("a connection");
        let mut transaction = user.begin().await.expect("a transaction");
        transaction.execute("SELECT 1 FROM anarchon_runs WHERE slot = 1 FOR UPDATE").await.expect("a lock");
        // Both leases are over by the store's clock.
        transaction.execute("SELECT pg_sleep(0.01)").await.expect("a moment");
        for answer in [backend.claim(&asked).await, backend.claim_many(&[asked.clone(), claim("b", 1)]).await.remove(0)]
        {
            match answer.expect("an answer").value {
                ClaimOutcome::Overlap { blocker, recorded: false, .. } => assert_eq!(blocker, first.key(), "{place:?}"),
                other => panic!("{place:?}: {other:?}"),
            }
        }
        transaction.rollback().await.expect("a rollback");
        let outcome = backend.claim(&asked).await.expect("an answer").value;
        assert!(matches!(outcome, ClaimOutcome::Won { attempt: 2, .. }), "{place:?}: {outcome:?}");
    }
}
