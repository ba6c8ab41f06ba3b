//! Transactions beside each other: whoever holds the row of a run keeps nobody waiting.

use std::time::Duration;

use anarchon::run::{Beat, BeatOutcome, ClaimOutcome, Ending, Registration, Trim};
use anarchon::{Backend as _, BackendErrorKind, LeaseBackend as _, MySqlBackend, Overlap, Retention};
use sqlx::{Connection as _, Executor as _, MySqlConnection};
use tests::LONG;
use tests::backends::{answer, attempts, claim, finish, instance, job, won};
use tests::servers::{Database, MariaDb};

/// A store, and a transaction of an application on its database.
async fn store() -> Option<(Database, MySqlBackend, MySqlConnection)> {
    let database = MariaDb::shared()?.database();
    let backend = MySqlBackend::new(database.url());
    backend.connect().await.expect("a store");
    let mut other = MySqlConnection::connect(database.url()).await.expect("a connection");
    // So that it locks what it finds, and not what it looks at.
    let isolation = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
    other.execute(isolation).await.expect("a setting");
    other.execute("START TRANSACTION").await.expect("a transaction");
    Some((database, backend, other))
}

async fn lock(other: &mut MySqlConnection, name: &str) {
    // All of its columns: an index that had those would be locked whole by MariaDB.
    let sql = "SELECT * FROM anarchon_runs WHERE job = ? FOR UPDATE";
    let rows = sqlx::query(sql).bind(name.as_bytes()).fetch_all(other).await.expect("a lock");
    assert!(!rows.is_empty(), "there is no run of {name}");
}

async fn unlock(other: &mut MySqlConnection) {
    other.execute("ROLLBACK").await.expect("a rollback");
    other.execute("START TRANSACTION").await.expect("a transaction");
}

/// A run whose lease is over.
async fn abandoned(backend: &MySqlBackend, name: &str, slot: i64) {
    let mut first = claim(name, slot);
    first.lease = Duration::from_millis(1);
    assert!(won(&backend.claim(&first).await.expect("an answer").value));
    let over = async || {
        let active = backend.active(&[job(name)]).await.expect("runs").value;
        active.first().is_some_and(|run| run.left.is_zero())
    };
    while !over().await {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_locked_run_counts_as_alive_and_is_taken_over_when_it_is_free() {
    let Some((_database, backend, mut other)) = store().await else { return };
    abandoned(&backend, "a", 1).await;
    lock(&mut other, "a").await;
    let asked = claim("a", 1);
    let outcome = backend.claim(&asked).await.expect("it does not wait").value;
    assert_eq!(outcome, ClaimOutcome::Running { left: Duration::ZERO });
    // It is in the way of the next slot, too.
    let next = backend.claim(&claim("a", 2)).await.expect("it does not wait").value;
    assert!(matches!(next, ClaimOutcome::Overlap { recorded: true, .. }), "{next:?}");
    unlock(&mut other).await;
    let outcome = backend.claim(&asked).await.expect("an answer").value;
    assert!(matches!(outcome, ClaimOutcome::Won { attempt: 2, .. }), "{outcome:?}");
    assert_eq!(attempts(&backend, "a").await.len(), 2, "the first attempt is in the history once");
}

#[tokio::test]
async fn a_locked_run_that_nobody_may_take_over_is_closed_when_it_is_free() {
    let Some((_database, backend, mut other)) = store().await else { return };
    let mut only = claim("a", 1);
    (only.max_attempts, only.lease) = (1, Duration::from_millis(1));
    assert!(won(&backend.claim(&only).await.expect("an answer").value));
    tokio::time::sleep(Duration::from_millis(5)).await;
    lock(&mut other, "a").await;
    let next = backend.claim(&claim("a", 2)).await.expect("it does not wait").value;
    assert!(matches!(next, ClaimOutcome::Overlap { .. }), "{next:?}");
    unlock(&mut other).await;
    assert!(won(&backend.claim(&claim("a", 3)).await.expect("an answer").value));
    let kept = attempts(&backend, "a").await;
    assert_eq!(kept.last().and_then(|first| first.status), Some(anarchon::AttemptStatus::Lost), "{kept:?}");
}

#[tokio::test]
async fn one_locked_run_costs_no_other_its_lease() {
    let Some((_database, backend, mut other)) = store().await else { return };
    let claims = [claim("a", 1), claim("b", 1), claim("c", 1)];
    assert!(backend.claim_many(&claims).await.into_iter().all(|won| self::won(&won.expect("an answer").value)));
    lock(&mut other, "b").await;
    let beats: Vec<Beat> = claims.iter().map(|c| Beat::new(c.key(), c.token, LONG * 8)).collect();
    let answers = backend.heartbeat_many(&beats).await.into_iter().map(|beat| beat.expect("it does not wait").value);
    assert_eq!(answers.collect::<Vec<_>>(), [BeatOutcome::Alive, BeatOutcome::Locked, BeatOutcome::Alive]);
    unlock(&mut other).await;
    assert_eq!(backend.heartbeat(&beats[1]).await.expect("an answer").value, BeatOutcome::Alive);
}

#[tokio::test]
async fn heartbeats_beside_each_other_lock_their_own_runs_alone() {
    const INSTANCES: usize = 4;
    let Some((_database, backend, _other)) = store().await else { return };
    let claims: Vec<_> = (0..INSTANCES * 2).map(|n| claim(&format!("job-{n}"), 1)).collect();
    assert!(backend.claim_many(&claims).await.into_iter().all(|won| self::won(&won.expect("an answer").value)));
    let instance = async |mine: &[anarchon::run::RunClaim]| {
        for round in 1..=40 {
            let beats: Vec<Beat> = mine.iter().map(|c| Beat::new(c.key(), c.token, LONG * (8 + round))).collect();
            let answers = backend.heartbeat_many(&beats).await;
            for answer in answers {
                assert_eq!(answer.expect("an answer").value, BeatOutcome::Alive, "round {round}");
            }
        }
    };
    let mut mine = claims.chunks(2);
    let mut next = || instance(mine.next().expect("as many as instances"));
    tokio::join!(next(), next(), next(), next());
}

#[tokio::test]
async fn a_trim_passes_over_what_is_locked() {
    let Some((_database, backend, mut other)) = store().await else { return };
    for name in ["a", "b"] {
        for slot in 1..=4 {
            let asked = claim(name, slot);
            assert!(won(&backend.claim(&asked).await.expect("an answer").value));
            backend.finish(&finish(&asked, Ending::Done)).await.expect("an end");
        }
    }
    lock(&mut other, "a").await;
    let trims = ["a", "b"].map(|name| Trim::new(job(name), Retention::new(1, None), Duration::ZERO));
    backend.trim(&trims).await.expect("it does not wait");
    assert_eq!((attempts(&backend, "a").await.len(), attempts(&backend, "b").await.len()), (4, 1));
    unlock(&mut other).await;
    backend.trim(&trims).await.expect("a trim");
    assert_eq!(attempts(&backend, "a").await.len(), 1);
}

#[tokio::test]
async fn a_trim_waits_for_no_attempt_whose_end_is_not_committed() {
    let Some((_database, backend, mut other)) = store().await else { return };
    for slot in 1..=3 {
        let asked = claim("a", slot);
        assert!(won(&backend.claim(&asked).await.expect("an answer").value));
        backend.finish(&finish(&asked, Ending::Done)).await.expect("an end");
    }
    assert!(won(&backend.claim(&claim("a", 4)).await.expect("an answer").value));
    // Its row is in the history of the same job, and belongs to the transaction.
    end_uncommitted(&mut other, "a").await;
    let trim = [Trim::new(job("a"), Retention::new(1, None), Duration::ZERO)];
    backend.trim(&trim).await.expect("it does not wait");
    assert_eq!(attempts(&backend, "a").await.len(), 1, "the one that is not known to have ended");
    unlock(&mut other).await;
}

#[tokio::test]
async fn a_finish_waits_for_the_run_and_a_job_that_is_held_is_busy() {
    let Some((_database, backend, mut other)) = store().await else { return };
    let asked = claim("a", 1);
    assert!(won(&backend.claim(&asked).await.expect("an answer").value));
    lock(&mut other, "a").await;
    let ending = finish(&asked, Ending::Done);
    let (ended, ()) = tokio::join!(backend.finish(&ending), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        unlock(&mut other).await;
    });
    ended.expect("an end, after a wait");
    other.execute("SELECT * FROM anarchon_runs_jobs WHERE job = 'a' FOR UPDATE").await.expect("a lock");
    let next = claim("a", 2);
    let error = backend.claim(&next).await.expect_err("the job is held for longer than anybody waits");
    assert_eq!(error.kind(), BackendErrorKind::Busy, "{error}");
    // It holds nothing up meanwhile.
    assert!(won(&backend.claim(&claim("b", 1)).await.expect("an answer").value));
    unlock(&mut other).await;
    let outcome = answer(async || backend.claim(&next).await).await.value;
    assert!(matches!(outcome, ClaimOutcome::Won { attempt: 1, .. }), "{outcome:?}");
}

/// The application's transaction ends a run, as a finish in it does, and has not committed.
async fn end_uncommitted(other: &mut MySqlConnection, name: &str) {
    for sql in [
        "UPDATE anarchon_runs AS r SET mark = 7 WHERE r.job = ? AND r.open_job IS NOT NULL",
        "INSERT INTO anarchon_runs_attempts \
         (job, id, slot, token, attempt, fence, reason, instance_id, claimed_at, ended_at, status) \
         SELECT r.job, r.id, r.slot, r.token, r.attempt, r.fence, r.reason, r.instance_id, r.claimed_at, r.claimed_at, 'done' \
         FROM anarchon_runs r WHERE r.job = ? AND r.mark = 7",
        "UPDATE anarchon_runs AS r SET status = 'done', open_job = NULL, token = NULL WHERE r.job = ? AND r.mark = 7",
    ] {
        let done = sqlx::query(sql).bind(name.as_bytes()).execute(&mut *other).await.expect("a statement");
        assert_eq!(done.rows_affected(), 1, "{sql}");
    }
}

#[tokio::test]
async fn an_end_that_is_not_committed_keeps_no_claim_waiting() {
    let Some((_database, backend, mut other)) = store().await else { return };
    // Whether or not its lease is over, and in whatever way it is met.
    abandoned(&backend, "over", 1).await;
    assert!(won(&backend.claim(&claim("held", 1)).await.expect("an answer").value));
    for name in ["over", "held"] {
        end_uncommitted(&mut other, name).await;
        let same = backend.claim(&claim(name, 1)).await.expect("it does not wait").value;
        assert!(matches!(same, ClaimOutcome::Running { .. }), "{name}: {same:?}");
        let next = backend.claim(&claim(name, 2)).await.expect("it does not wait").value;
        assert!(matches!(next, ClaimOutcome::Overlap { .. }), "{name}: {next:?}");
        let beside = [name, &format!("beside {name}")].map(|name| {
            let mut claim = claim(name, 3);
            claim.overlap = Overlap::Allow;
            claim
        });
        for answer in backend.claim_many(&beside).await {
            assert!(won(&answer.expect("it does not wait").value));
        }
        backend.active(&[job(name)]).await.expect("it does not wait");
    }
    unlock(&mut other).await;
    assert_eq!(attempts(&backend, "held").await.len(), 2);
}

fn registration(name: &str) -> Registration {
    Registration::new(job(name), "every 1s", "every 1s", instance("one"))
}

/// Returns once so many transactions on this database wait for a lock.
async fn waiting(other: &mut MySqlConnection, database: &Database, transactions: i64) {
    let sql = "SELECT count(*) FROM information_schema.innodb_trx t JOIN information_schema.processlist p \
               ON p.id = t.trx_mysql_thread_id WHERE t.trx_state = 'LOCK WAIT' AND p.db = ?";
    let since = std::time::Instant::now();
    while sqlx::query_scalar::<_, i64>(sql).bind(database.name()).fetch_one(&mut *other).await.expect("a count")
        < transactions
    {
        assert!(since.elapsed() < LONG, "fewer than {transactions} wait");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn registrations_in_any_order_do_not_wait_for_each_other_in_a_circle() {
    let Some((database, backend, mut other)) = store().await else { return };
    let days = Duration::from_secs(86_400 * 90);
    let jobs = ["a", "m", "z"].map(registration);
    backend.register(&jobs, days).await.expect("a registration");
    other.execute("SELECT * FROM anarchon_runs_jobs WHERE job = 'm' FOR UPDATE").await.expect("a lock");
    // In the order that they are in, each of them would have its first job when both wait for `m`.
    let turned = ["z", "m", "a"].map(registration);
    let (one, two, ()) = tokio::join!(backend.register(&jobs, days), backend.register(&turned, days), async {
        waiting(&mut other, &database, 2).await;
        unlock(&mut other).await;
    });
    one.expect("a registration");
    two.expect("a registration");
}

#[tokio::test]
async fn forgotten_jobs_are_looked_for_beside_registrations_without_a_wait() {
    let Some((database, backend, mut other)) = store().await else { return };
    let days = Duration::from_secs(86_400 * 90);
    backend.register(&["b", "m", "old"].map(registration), days).await.expect("a registration");
    other.execute("SELECT * FROM anarchon_runs_jobs WHERE job = 'm' FOR UPDATE").await.expect("a lock");
    // One has `b` and waits for `m`; the others look for forgotten jobs, among all of them, meanwhile.
    let soon = Duration::from_millis(1);
    let first = ["b", "m"].map(registration);
    let (_, ()) = tokio::join!(answer(async || backend.register(&first, soon).await), async {
        waiting(&mut other, &database, 1).await;
        for _ in 0..2 {
            backend.register(&[registration("a")], soon).await.expect("it does not wait");
        }
        unlock(&mut other).await;
    });
    let sql = "SELECT count(*) FROM anarchon_runs_jobs WHERE job = 'old'";
    let left: i64 = sqlx::query_scalar(sql).fetch_one(&mut other).await.expect("a count");
    assert_eq!(left, 0, "what is not in use was found");
}
