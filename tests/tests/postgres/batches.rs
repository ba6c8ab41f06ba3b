//! Batches of claims beside whoever else is at the rows of their jobs.

use std::time::Duration;

use anarchon::run::{ClaimKind, ClaimOutcome, Lateness, Reason, RunClaim};
use anarchon::{Backend as _, BackendErrorKind, LeaseBackend as _, PostgresBackend};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, Row as _, Transaction, raw_sql};

use crate::place::{POOLED_1_24, V15, V18, number, run};
use crate::{claim, claims, done, rival, won};

async fn outcomes(backend: &PostgresBackend, claims: &[RunClaim]) -> Vec<ClaimOutcome> {
    backend.claim_many(claims).await.into_iter().map(|answer| answer.expect("an answer").value).collect()
}

fn fence(outcome: &ClaimOutcome) -> u64 {
    match outcome {
        ClaimOutcome::Won { fence: Some(fence), .. } => *fence,
        other => panic!("it has no fence: {other:?}"),
    }
}

/// Holds the row of a job.
pub(crate) async fn hold<'a>(user: &'a mut PgConnection, job: &str) -> Transaction<'a, sqlx::Postgres> {
    let mut transaction = user.begin().await.expect("a transaction");
    let lock = format!("SELECT 1 FROM anarchon_runs_jobs WHERE job = '{job}' AND ident = '' FOR UPDATE");
    transaction.execute(raw_sql(AssertSqlSafe(lock))).await.expect("a lock");
    transaction
}

/// Waits until so many others wait for a lock.
pub(crate) async fn wait_waiting(transaction: &mut Transaction<'_, sqlx::Postgres>, count: i64) {
    let waiting = "SELECT count(*) FROM pg_stat_activity \
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
    loop {
        // What it says stays the same for all of a transaction, unless that is let go.
        transaction.execute("SELECT pg_stat_clear_snapshot()").await.expect("a new look");
        if transaction.fetch_one(waiting).await.expect("a count").get::<i64, _>(0) == count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn two_batches_in_opposite_order_that_meet_in_the_middle_do_not_wait_in_a_circle() {
    for place in [V15, V18, POOLED_1_24] {
        let Some(database) = place.database() else { return };
        let (a, b) = (PostgresBackend::new(database.url()), PostgresBackend::new(database.url()));
        let known = claims("job", 9, 1);
        outcomes(&a, &known).await;
        a.finish_many(&known.iter().map(done).collect::<Vec<_>>()).await;
        b.connect().await.expect("a connection");
        // Other slots, so that each wins all of its own.
        let forth: Vec<RunClaim> = claims("job", 9, 2)
            .into_iter()
            .map(|mut claim| {
                claim.overlap = anarchon::Overlap::Allow;
                claim
            })
            .collect();
        let mut back: Vec<RunClaim> = forth.iter().map(rival).collect();
        back.iter_mut().for_each(|claim| claim.slot = anarchon::Slot::from_ms(3));
        back.reverse();
        let mut user = PgConnection::connect(database.url()).await.expect("a connection");
        let mut transaction = hold(&mut user, "job-004").await;
        let release = async {
            wait_waiting(&mut transaction, 2).await;
            transaction.rollback().await.expect("a rollback");
        };
        let (forth, back, ()) = tokio::join!(outcomes(&a, &forth), outcomes(&b, &back), release);
        assert!(forth.iter().chain(&back).all(won), "{place:?}: {forth:?} {back:?}");
        for (one, other) in forth.iter().zip(back.iter().rev()) {
            assert_ne!(fence(one), fence(other), "{place:?}");
        }
    }
}

#[tokio::test]
async fn a_batch_with_a_job_that_is_just_being_made_does_not_wait_in_a_circle() {
    for place in [V15, V18, POOLED_1_24] {
        let Some(database) = place.database() else { return };
        let backend = PostgresBackend::new(database.url());
        let known = claim("later", 1);
        outcomes(&backend, std::slice::from_ref(&known)).await;
        backend.finish(&done(&known)).await.expect("an answer");
        let mut user = PgConnection::connect(database.url()).await.expect("a connection");
        let mut transaction = user.begin().await.expect("a transaction");
        let make = "INSERT INTO anarchon_runs_jobs (job, ident, touched) VALUES ('earlier', '', 0)";
        transaction.execute(make).await.expect("a row");
        let batch = [claim("earlier", 2), claim("later", 2)];
        let commit = async {
            wait_waiting(&mut transaction, 1).await;
            let lock = "SELECT 1 FROM anarchon_runs_jobs WHERE job = 'later' AND ident = '' FOR UPDATE";
            transaction.execute(lock).await.unwrap_or_else(|error| panic!("{place:?}: {error}"));
            transaction.commit().await.expect("a commit");
        };
        let (batch, ()) = tokio::join!(outcomes(&backend, &batch), commit);
        assert!(batch.iter().all(won), "{place:?}: {batch:?}");
    }
}

/// Claims are sent in the order of their names in UTF-8, and a database of another encoding sorts them by its own.
#[tokio::test]
async fn a_batch_whose_jobs_sort_otherwise_in_the_database_is_answered_in_its_order() {
    let Some(database) = V15.database() else { return };
    let name = format!("{}_koi", database.name());
    let make = format!("CREATE DATABASE {name} ENCODING 'KOI8R' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'");
    run(database.url(), make).await;
    let url = database.url().replace(database.name(), &name);
    let first = PostgresBackend::new(&url);
    for (job, slot) in [("в", 10), ("ц", 10), ("в", 20)] {
        let claim = claim(job, slot);
        assert!(won(&first.claim(&claim).await.expect("an answer").value));
        first.finish(&done(&claim)).await.expect("an answer");
    }
    first.close().await;
    // With so few rows, it would be as good to go through all of them in their order.
    run(&url, "VACUUM ANALYZE anarchon_runs_jobs").await;
    let second = PostgresBackend::new(&url);
    let told = outcomes(&second, &[claim("в", 20), claim("ц", 20)]).await;
    assert!(matches!(told[0], ClaimOutcome::Done { .. }), "{told:?}");
    assert!(won(&told[1]), "{told:?}");
    second.close().await;
    run(database.url(), format!("DROP DATABASE {name}")).await;
}

#[tokio::test]
async fn a_batch_that_waits_decides_by_what_single_claims_have_done_meanwhile() {
    for place in [V15, V18] {
        let Some(database) = place.database() else { return };
        let (a, b) = (PostgresBackend::new(database.url()), PostgresBackend::new(database.url()));
        let known = claims("job", 6, 1);
        let first = outcomes(&a, &known).await;
        a.finish_many(&known.iter().map(done).collect::<Vec<_>>()).await;
        b.connect().await.expect("a connection");
        let batch = claims("job", 6, 2);
        let (before, after) = (rival(&batch[1]), rival(&batch[5]));
        let mut user = PgConnection::connect(database.url()).await.expect("a connection");
        let mut transaction = hold(&mut user, "job-003").await;
        let singles = async {
            wait_waiting(&mut transaction, 1).await;
            // The batch has not come to this job.
            let after = b.claim(&after).await.expect("an answer").value;
            // It has locked this one, which is waited for.
            let release = async {
                wait_waiting(&mut transaction, 2).await;
                transaction.rollback().await.expect("a rollback");
            };
            let (before, ()) = tokio::join!(b.claim(&before), release);
            (before.expect("an answer").value, after)
        };
        let (batch, (before, after)) = tokio::join!(outcomes(&a, &batch), singles);
        assert!(matches!(before, ClaimOutcome::Running { .. }), "{place:?}: {before:?}");
        assert!(won(&after), "{place:?}: {after:?}");
        assert!(batch[..5].iter().all(won), "{place:?}: {batch:?}");
        assert!(matches!(batch[5], ClaimOutcome::Running { .. }), "{place:?}: {batch:?}");
        for (earlier, later) in first.iter().zip(batch[..5].iter().chain([&after])) {
            assert!(fence(earlier) < fence(later), "{place:?}");
        }
    }
}

#[tokio::test]
async fn a_batch_with_a_job_that_is_held_gives_up_and_has_claimed_nothing() {
    for place in [V15, V18, POOLED_1_24] {
        let Some(database) = place.database() else { return };
        let backend = PostgresBackend::new(database.url());
        let known = claims("job", 4, 1);
        outcomes(&backend, &known).await;
        backend.finish_many(&known.iter().map(done).collect::<Vec<_>>()).await;
        let mut user = PgConnection::connect(database.url()).await.expect("a connection");
        let transaction = hold(&mut user, "job-002").await;
        let batch = claims("job", 4, 2);
        for answer in backend.claim_many(&batch).await {
            let error = answer.expect_err("a row is held");
            assert_eq!(error.kind(), BackendErrorKind::Busy, "{place:?}: {error}");
        }
        transaction.rollback().await.expect("a rollback");
        let runs = number(database.url(), "SELECT count(*) FROM anarchon_runs WHERE open_job IS NOT NULL").await;
        assert_eq!(runs, 0, "{place:?}");
        assert!(outcomes(&backend, &batch).await.iter().all(won), "{place:?}");
    }
}

#[tokio::test]
async fn fences_grow_over_claims_that_are_lost_and_each_is_given_once() {
    for place in [V15, V18] {
        let Some(database) = place.database() else { return };
        let backend = PostgresBackend::new(database.url());
        let mut last: Vec<u64> = vec![0; 5];
        for slot in 1..=4 {
            let batch = claims("job", 5, slot);
            let won: Vec<u64> = outcomes(&backend, &batch).await.iter().map(fence).collect();
            assert!(last.iter().zip(&won).all(|(last, fence)| fence > last), "{place:?}: {last:?} {won:?}");
            last = won;
            // The first of them is free, so the others are lost under their locks; again and again.
            for n in 0..3 {
                let mut lost: Vec<RunClaim> = batch.iter().map(rival).collect();
                lost.insert(0, claim(&format!("free-{slot}-{n}"), slot));
                let told = outcomes(&backend, &lost).await;
                assert!(matches!(told[1..], [ClaimOutcome::Running { .. }, ..]), "{place:?}: {told:?}");
                // One by one as well.
                let alone = backend.claim(&lost[1]).await.expect("an answer").value;
                assert!(matches!(alone, ClaimOutcome::Running { .. }), "{place:?}: {alone:?}");
            }
            backend.finish_many(&batch.iter().map(done).collect::<Vec<_>>()).await;
            let mut one = claim("job-000", slot * 100);
            one.overlap = anarchon::Overlap::Allow;
            let alone = fence(&backend.claim(&one).await.expect("an answer").value);
            assert!(alone > last[0], "{place:?}");
            last[0] = alone;
            backend.finish(&done(&one)).await.expect("an answer");
        }
        let behind = "SELECT count(*) FROM anarchon_runs_jobs l JOIN anarchon_runs r ON r.job = l.job \
                      WHERE l.ident = '' AND r.fence > l.fence";
        assert_eq!(number(database.url(), behind).await, 0, "{place:?}");
    }
}

#[tokio::test]
async fn a_batch_that_comes_too_late_or_to_newer_tables_leaves_no_trace() {
    for place in [V15, V18] {
        let Some(database) = place.database() else { return };
        let backend = PostgresBackend::new(database.url());
        backend.connect().await.expect("a connection");
        let mut late = claims("late", 3, 1);
        late.iter_mut().for_each(|claim| claim.valid_until = 1);
        let told = outcomes(&backend, &late).await;
        assert!(told.iter().all(|told| *told == ClaimOutcome::Late(Lateness::Stale)), "{place:?}: {told:?}");
        let rows = "SELECT count(*) FROM anarchon_runs_jobs";
        assert_eq!(number(database.url(), rows).await, 0, "{place:?}");

        let known = claims("job", 3, 1);
        outcomes(&backend, &known).await;
        backend.finish_many(&known.iter().map(done).collect::<Vec<_>>()).await;
        run(database.url(), "UPDATE anarchon_runs_meta SET v = 99 WHERE k = 'format'").await;
        let fences = "SELECT sum(fence)::bigint FROM anarchon_runs_jobs";
        let before = number(database.url(), fences).await;
        for answer in backend.claim_many(&claims("job", 3, 2)).await {
            answer.expect_err("the tables are newer");
        }
        assert_eq!(number(database.url(), fences).await, before, "{place:?}");
    }
}

#[tokio::test]
async fn each_claim_of_a_batch_is_told_its_own_fence_and_kept_as_it_was_asked() {
    for place in [V15, V18] {
        let Some(database) = place.database() else { return };
        let backend = PostgresBackend::new(database.url());
        let known = claims("job", 5, 1);
        outcomes(&backend, &known).await;
        backend.finish_many(&known.iter().map(done).collect::<Vec<_>>()).await;
        run(
            database.url(),
            "UPDATE anarchon_runs_jobs SET fence = 9000000000000 + 10 * right(job, 1)::bigint WHERE ident = ''",
        )
        .await;
        // In no order of the jobs, no two alike, one of which another has, and one of a job that nobody knows.
        let mut batch: Vec<RunClaim> = (0..5).map(|n| claim(&format!("job-{n:03}"), 2 + n)).collect();
        for (n, claim) in (0_u32..).zip(&mut batch) {
            claim.max_attempts = 3 + n;
            claim.lease = Duration::from_secs(u64::from(60 + n));
            claim.kind = if n % 2 == 0 { ClaimKind::Scheduled } else { ClaimKind::CatchUp };
        }
        batch.push(claim("new", 1));
        batch.reverse();
        batch.swap(1, 4);
        let taken = rival(batch.iter().find(|claim| claim.job.as_str() == "job-002").expect("a claim"));
        assert!(won(&backend.claim(&taken).await.expect("an answer").value), "{place:?}");

        for (claim, told) in batch.iter().zip(outcomes(&backend, &batch).await) {
            let ClaimOutcome::Won { attempt: 1, fence: Some(fence), max_attempts, reason } = told else {
                assert!(matches!(told, ClaimOutcome::Running { .. }), "{place:?}: {told:?}");
                assert_eq!(claim.job, taken.job, "{place:?}");
                continue;
            };
            assert_ne!(claim.job, taken.job, "{place:?}");
            assert_eq!(max_attempts, claim.max_attempts, "{place:?}");
            let catch_up = claim.kind == ClaimKind::CatchUp;
            assert_eq!(reason, if catch_up { Reason::CatchUp } else { Reason::Scheduled }, "{place:?}");
            if let Some(n) = claim.job.as_str().strip_prefix("job-00") {
                // Twice: locked with the others, and then claimed by itself, since nobody knew one of them.
                assert_eq!(fence, 9_000_000_000_002 + 10 * n.parse::<u64>().expect("a number"), "{place:?}");
            }
        }
        let kept = "SELECT count(*) FROM anarchon_runs r JOIN anarchon_runs_jobs l ON l.job = r.job AND l.ident = '' \
                    WHERE r.open_job LIKE 'job-%' AND r.slot = 2 + right(r.job, 1)::bigint \
                    AND r.max_attempts = 3 + right(r.job, 1)::bigint \
                    AND r.until_ms - r.claimed_at = 1000 * (60 + right(r.job, 1)::bigint) \
                    AND r.reason = CASE right(r.job, 1)::bigint % 2 WHEN 0 THEN 'scheduled' ELSE 'catch-up' END \
                    AND r.fence >= 9000000000001 + 10 * right(r.job, 1)::bigint AND r.fence <= l.fence";
        assert_eq!(number(database.url(), kept).await, 5, "{place:?}");
    }
}
