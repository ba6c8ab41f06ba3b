//! What is peculiar to a file: several connections, busy writers, dropped calls, and files that cannot be used.

use std::collections::HashMap;
use std::task::Poll;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{Connection as _, SqlitePool};

use super::support::{Directory, Random, store_at};
use crate::backend::sql::{SqlClient as _, Statement};
use crate::backend::{AnyBackend, Backend as _, LeaseBackend as _, SqliteBackend, SqliteDialect};
use crate::error::{BackendError, BackendErrorKind};
use crate::option::{Overlap, Retention};
use crate::run::{Beat, BeatOutcome, ClaimOutcome, Ending, Finish, Record, Registration, RunClaim, SkipReason, Trim};
use crate::slot::{InstanceId, JobName, Slot, Token};
use crate::testing::differential::HandClocked as _;

fn job(name: &str) -> JobName {
    JobName::new(name).unwrap()
}

fn instance(name: &str) -> InstanceId {
    InstanceId::new(name).unwrap()
}

fn claim(name: &str, slot: i64) -> RunClaim {
    let mut claim = RunClaim::new(job(name), Slot::from_ms(slot), Token::random(), instance("one"));
    claim.limit = Duration::from_secs(100_000_000_000);
    claim
}

fn won(outcome: &ClaimOutcome) -> bool {
    matches!(outcome, ClaimOutcome::Won { .. })
}

async fn raw(path: &str) -> SqliteConnection {
    SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(path).busy_timeout(Duration::ZERO))
        .await
        .unwrap()
}

async fn config_error(backend: SqliteBackend) -> BackendError {
    let error = backend.connect().await.unwrap_err();
    assert_eq!(error.kind(), BackendErrorKind::Config, "{error}");
    error
}

/// Threads with a connection each race for slots of a few jobs; some give up while a call is under way.
#[test]
fn one_wins_each_slot_and_two_are_never_live_under_skip() {
    const RACERS: u64 = 4;
    const SLOTS: i64 = 120;
    let directory = Directory::new();
    let path = directory.file("race.db");
    let racer = |seed: u64| {
        let path = path.clone();
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let mut random = Random(seed);
                let backend = SqliteBackend::new(path);
                backend.connect().await.unwrap();
                let mut wins = Vec::new();
                for slot in 1..=SLOTS {
                    let names = ["a", "b", "c"];
                    let claims: Vec<RunClaim> = names.iter().map(|name| claim(name, slot * 1000)).collect();
                    let together = random.chance(50);
                    let calls = async {
                        if together { backend.claim_many(&claims).await } else { vec![backend.claim(&claims[0]).await] }
                    };
                    let patience = Duration::from_micros(random.below(3_000));
                    let answers = if random.chance(20) {
                        // Dropped somewhere in the middle, then sent again with the same tokens.
                        drop(tokio::time::timeout(patience, calls).await);
                        backend.claim_many(&claims).await
                    } else {
                        calls.await
                    };
                    for (claim, answer) in claims.iter().zip(answers) {
                        match answer.unwrap().value {
                            ClaimOutcome::Won { attempt, fence, .. } => {
                                wins.push((claim.job.clone(), claim.slot, attempt, fence.unwrap(), claim.token));
                                let done = Finish::new(claim.key(), claim.token, Ending::Done, instance("x"), 0);
                                backend.finish(&done).await.unwrap();
                            }
                            ClaimOutcome::Late(lateness) => panic!("{lateness:?}"),
                            _ => {}
                        }
                    }
                }
                backend.close().await;
                wins
            })
        }
    };
    let threads: Vec<_> = (1..=RACERS).map(|seed| std::thread::spawn(racer(seed))).collect();
    let wins: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    let mut winners: HashMap<_, Token> = HashMap::new();
    for (job, slot, attempt, _, token) in &wins {
        let other = winners.insert((job.clone(), *slot, *attempt), *token);
        assert!(other.is_none_or(|other| other == *token), "{job} {slot} has two winners");
    }
    let mut fences: HashMap<_, Vec<u64>> = HashMap::new();
    wins.iter().for_each(|(job, _, _, fence, _)| fences.entry(job.clone()).or_default().push(*fence));
    for (job, mut fences) in fences {
        let count = fences.len();
        fences.sort_unstable();
        fences.dedup();
        assert_eq!(fences.len(), count, "{job}: a fence was given twice");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let backend = SqliteBackend::new(&path);
        for name in ["a", "b", "c"] {
            let (mut spans, mut skipped) = (Vec::new(), 0);
            for record in backend.history(&job(name), 10_000).await.unwrap() {
                match record {
                    Record::Attempt(attempt) => {
                        spans.push((attempt.fence.unwrap(), attempt.claimed_at, attempt.ended_at.unwrap_or(i64::MAX)));
                    }
                    Record::Skipped(skip) => skipped += i64::try_from(skip.count).unwrap(),
                }
            }
            // The one that every racer asked for: each of its slots has been decided, and once.
            if name == "a" {
                assert_eq!(i64::try_from(spans.len()).unwrap() + skipped, SLOTS, "{} ran", spans.len());
            }
            spans.sort_unstable();
            for pair in spans.windows(2) {
                assert!(pair[0].1 <= pair[1].1 && pair[0].2 <= pair[1].1, "{name}: two were live at once: {pair:?}");
            }
        }
    });
}

#[tokio::test]
async fn a_busy_file_is_busy_and_not_lost() {
    let directory = Directory::new();
    let path = directory.file("busy.db");
    let backend = SqliteBackend::new(&path).busy_timeout(Duration::from_millis(50));
    backend.connect().await.unwrap();
    let mut other = raw(&path).await;
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    let (one, many) = (claim("a", 1), [claim("b", 1), claim("c", 1)]);
    assert_eq!(backend.claim(&one).await.unwrap_err().kind(), BackendErrorKind::Busy);
    for answer in backend.claim_many(&many).await {
        assert_eq!(answer.unwrap_err().kind(), BackendErrorKind::Busy);
    }
    let beat = Beat::new(one.key(), one.token, Duration::from_secs(1));
    assert_eq!(backend.heartbeat(&beat).await.unwrap_err().kind(), BackendErrorKind::Busy);
    // Reading goes on.
    assert!(backend.active(&[]).await.unwrap().value.is_empty());
    sqlx::raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
    assert!(won(&backend.claim(&one).await.unwrap().value));
    assert!(backend.claim_many(&many).await.into_iter().all(|answer| won(&answer.unwrap().value)));
}

#[tokio::test]
async fn a_call_waits_for_another_writer() {
    let directory = Directory::new();
    let path = directory.file("wait.db");
    let backend = SqliteBackend::new(&path);
    backend.connect().await.unwrap();
    let mut other = raw(&path).await;
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    let asked = claim("a", 1);
    let (answer, _) = tokio::join!(backend.claim(&asked), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        sqlx::raw_sql("COMMIT").execute(&mut other).await.unwrap();
    });
    assert!(won(&answer.unwrap().value));
}

#[tokio::test]
async fn a_dropped_call_leaves_nothing_half_written() {
    let directory = Directory::new();
    let path = directory.file("dropped.db");
    // A call that was dropped is still being undone for a moment, by a thread of its own.
    let backend = SqliteBackend::new(&path).busy_timeout(Duration::from_secs(30));
    backend.connect().await.unwrap();
    for round in 1..=60_u64 {
        let asked = claim("a", i64::try_from(round).unwrap());
        let mut asked = RunClaim { overlap: Overlap::Allow, ..asked };
        asked.token = Token::random();
        drop(tokio::time::timeout(Duration::from_micros(round * 20), backend.claim(&asked)).await);
        // The same packet again: won, whatever became of the first.
        let again = backend.claim(&asked).await.unwrap().value;
        assert!(matches!(again, ClaimOutcome::Won { attempt: 1, .. }), "{again:?}");
        let finish = Finish::new(asked.key(), asked.token, Ending::Failed("no".into()), instance("one"), 0);
        drop(tokio::time::timeout(Duration::from_micros(round * 20), backend.finish(&finish)).await);
        backend.finish(&finish).await.unwrap();
        let mut other = raw(&path).await;
        // Nobody holds the lock.
        sqlx::raw_sql("BEGIN IMMEDIATE; ROLLBACK").execute(&mut other).await.unwrap();
    }
    assert_eq!(backend.history(&job("a"), 1_000).await.unwrap().len(), 60);
}

#[tokio::test]
async fn an_error_in_the_middle_is_taken_back() {
    let directory = Directory::new();
    let backend = store_at(&directory.file("error.db"), SqliteDialect::new(), 1_000_000).await;
    let bad = [
        Statement::new("INSERT INTO anarchon_runs_meta (k, v) VALUES ('half', 1)", Vec::new()),
        Statement::new("INSERT INTO no_such_table VALUES (1)", Vec::new()),
    ];
    let error = backend.client().batch(bad.to_vec()).await.unwrap_err();
    assert_eq!(error.kind(), BackendErrorKind::Refused);
    backend.set_clock(1_000_001).await;
    let half = Statement::new("SELECT 1 FROM anarchon_runs_meta WHERE k = 'half'", Vec::new());
    assert!(backend.client().query(half).await.unwrap().is_empty());
}

#[test]
fn several_make_the_tables_at_once() {
    let directory = Directory::new();
    let path = directory.file("new.db");
    let threads: Vec<_> = (0..6)
        .map(|_| {
            let path = path.clone();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let backend = SqliteBackend::new(path);
                    let info = backend.connect().await.unwrap();
                    backend.claim(&claim("a", 1)).await.unwrap();
                    info
                })
            })
        })
        .collect();
    for thread in threads {
        let info = thread.join().unwrap();
        assert!(info.server.starts_with("SQLite 3.") && info.server.contains(directory.path().to_str().unwrap()));
        assert!(info.warnings.is_empty(), "{:?}", info.warnings);
    }
}

#[tokio::test]
async fn the_tables_of_a_newer_release_are_refused() {
    let directory = Directory::new();
    let path = directory.file("newer.db");
    let backend = SqliteBackend::new(&path);
    backend.connect().await.unwrap();
    backend.claim(&claim("a", 1)).await.unwrap();
    let mut other = raw(&path).await;
    let set = |format: i64| format!("UPDATE anarchon_runs_meta SET v = {format} WHERE k = 'format'");
    // The next format can be worked with, during a rolling deploy.
    sqlx::raw_sql(sqlx::AssertSqlSafe(set(2))).execute(&mut other).await.unwrap();
    backend.claim(&claim("a", 2)).await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(set(3))).execute(&mut other).await.unwrap();
    let error = backend.claim(&claim("b", 3)).await.unwrap_err();
    assert_eq!(error.kind(), BackendErrorKind::Config);
    assert!(error.message().contains("newer release"), "{error}");
    let error = backend.claim_many(&[claim("b", 3), claim("c", 3)]).await.remove(0).unwrap_err();
    assert!(error.message().contains("newer release"), "{error}");
    config_error(SqliteBackend::new(&path)).await;
    sqlx::raw_sql(sqlx::AssertSqlSafe(set(1))).execute(&mut other).await.unwrap();
    assert!(won(&backend.claim(&claim("b", 3)).await.unwrap().value), "nothing was written before");
}

#[tokio::test]
async fn a_file_that_cannot_be_used_is_a_clear_error() {
    let directory = Directory::new();
    let missing = directory.file("no/such/directory/jobs.db");
    let error = config_error(SqliteBackend::new(&missing)).await;
    assert!(error.message().contains(&missing) && error.message().contains("directory does not exist"), "{error}");
    let text = directory.file("text.db");
    std::fs::write(&text, "this is a text, and long enough not to be taken for an empty database".repeat(30)).unwrap();
    let error = config_error(SqliteBackend::new(&text)).await;
    assert!(error.message().contains(&text) && error.message().contains("not an SQLite database"), "{error}");
    config_error(SqliteBackend::new(directory.path().to_str().unwrap())).await;
    config_error(SqliteBackend::new("")).await;
    config_error(SqliteBackend::new("sqlite:")).await;
    config_error(SqliteBackend::new("sqlite:jobs.db?mode=nonsense")).await;
    let absent = directory.file("absent.db");
    config_error(SqliteBackend::new(format!("sqlite:{absent}?mode=rw"))).await;
    assert!(!std::path::Path::new(&absent).exists());
    SqliteBackend::new(&absent).connect().await.unwrap();
    let error = config_error(SqliteBackend::new(format!("sqlite:{absent}?mode=ro"))).await;
    assert!(error.message().contains("read-only"), "{error}");
}

#[tokio::test]
async fn table_names_are_checked_and_separate() {
    let directory = Directory::new();
    let path = directory.file("names.db");
    let long = "x".repeat(49);
    for bad in ["", "a b", "x; drop table y", "jobs.cron", "a.b.c", "\"x\"", "1st", "päth", "a\0b", long.as_str()] {
        config_error(SqliteBackend::new(&path).table(bad)).await;
    }
    let (one, two) = (SqliteBackend::new(&path).table("cron_runs"), SqliteBackend::new(&path).table("Order"));
    one.connect().await.unwrap();
    two.connect().await.unwrap();
    assert!(won(&one.claim(&claim("a", 1)).await.unwrap().value));
    assert!(won(&two.claim(&claim("a", 1)).await.unwrap().value));
}

#[tokio::test]
async fn texts_are_kept_as_they_are() {
    let directory = Directory::new();
    for dialect in [SqliteDialect::new(), SqliteDialect::new().without_sessions()] {
        let path = directory.file(&format!("{:x}.db", rand::random::<u32>()));
        let backend = store_at(&path, dialect, 1_000_000).await;
        let evil = ["'; DROP TABLE anarchon_runs; --", "\"x\" ? ?1 $1 :a @b", "🦀 \u{202e}é\u{65}\u{301}", "a\\'b%_"];
        for text in evil {
            let mut asked = RunClaim::new(job(text), Slot::from_ms(999_000), Token::random(), instance(text));
            asked.identity = text.into();
            assert!(won(&backend.claim(&asked).await.unwrap().value));
            let error = format!("{text}\0\u{1}\n{text}");
            let finish = Finish::new(asked.key(), asked.token, Ending::Failed(error.clone()), instance(text), 0);
            backend.finish(&finish).await.unwrap();
            let Record::Attempt(record) = backend.history(&job(text), 1).await.unwrap().remove(0) else { panic!() };
            assert_eq!((record.instance.as_str(), record.error), (text, Some(error)));
        }
        // Names are compared byte by byte.
        for (name, others) in [("sync", "Sync"), ("é", "e\u{301}")] {
            assert!(won(&backend.claim(&RunClaim { limit: Duration::MAX, ..claim(name, 1) }).await.unwrap().value));
            assert!(won(&backend.claim(&RunClaim { limit: Duration::MAX, ..claim(others, 1) }).await.unwrap().value));
        }
    }
}

#[tokio::test]
async fn a_pool_gives_its_address_and_stays_open() {
    let directory = Directory::new();
    let path = directory.file("pool.db");
    let pool =
        SqlitePool::connect_with(SqliteConnectOptions::new().filename(&path).create_if_missing(true)).await.unwrap();
    let backend = SqliteBackend::from_pool(pool.clone());
    let info = backend.connect().await.unwrap();
    assert!(info.warnings.iter().any(|warning| warning.contains("journal mode")), "{:?}", info.warnings);
    assert!(won(&backend.claim(&claim("a", 1)).await.unwrap().value));
    backend.close().await;
    assert!(!pool.is_closed());
    let runs: i64 = sqlx::query_scalar("SELECT count(*) FROM anarchon_runs").fetch_one(&pool).await.unwrap();
    assert_eq!(runs, 1);
    // The application's own transaction does not stop what needs no lock.
    let held = pool.acquire().await.unwrap();
    assert!(backend.paused(&job("a")).await.unwrap().is_none());
    drop(held);
}

/// Polls a call this often and drops it.
async fn given_up_after<T>(polls: usize, call: impl Future<Output = T>) {
    let mut call = std::pin::pin!(call);
    let mut left = polls;
    std::future::poll_fn(|context| {
        if left == 0 || call.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        left -= 1;
        Poll::Pending
    })
    .await;
}

#[tokio::test]
async fn a_database_in_memory_is_used_through_its_pool() {
    for url in ["sqlite::memory:", "sqlite:jobs?mode=memory&cache=shared"] {
        let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect(url).await.unwrap();
        let backend = SqliteBackend::from_pool(pool.clone());
        let info = backend.connect().await.unwrap();
        assert_eq!(info.warnings.len(), 1);
        // A call that is given up, wherever it has got to, costs neither the connection nor what lies behind it.
        for polls in 0..8 {
            let asked = claim(&format!("job {polls}"), 1);
            given_up_after(polls, backend.claim(&asked)).await;
            assert!(won(&backend.claim(&asked).await.unwrap().value), "{url}, after {polls} polls");
            let other = claim(&format!("job {polls}"), 1);
            assert!(matches!(backend.claim(&other).await.unwrap().value, ClaimOutcome::Running { .. }));
        }
        backend.close().await;
        let runs: i64 = sqlx::query_scalar("SELECT count(*) FROM anarchon_runs").fetch_one(&pool).await.unwrap();
        assert_eq!(runs, 8);
    }
    let backend = SqliteBackend::new("sqlite::memory:");
    assert_eq!(backend.connect().await.unwrap().warnings.len(), 1);
    assert!(won(&backend.claim(&claim("a", 1)).await.unwrap().value));
    backend.close().await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_replaced_file_is_noticed() {
    let directory = Directory::new();
    let path = directory.file("replaced.db");
    let backend = SqliteBackend::new(&path);
    backend.connect().await.unwrap();
    let asked = claim("a", 1);
    backend.claim(&asked).await.unwrap();
    for suffix in ["", "-wal", "-shm"] {
        drop(std::fs::remove_file(format!("{path}{suffix}")));
    }
    assert_eq!(backend.claim(&asked).await.unwrap_err().kind(), BackendErrorKind::Unknown);
    assert!(won(&backend.claim(&asked).await.unwrap().value));
    assert!(std::path::Path::new(&path).exists());
}

#[tokio::test]
async fn a_url_opens_it_from_the_catalogue() {
    let directory = Directory::new();
    for scheme in ["sqlite:", "sqlite://", "file:"] {
        let backend = AnyBackend::connect(&format!("{scheme}{}", directory.file("url.db"))).unwrap();
        assert_eq!(backend.name(), "sqlite");
        backend.connect().await.unwrap();
        backend.close().await;
    }
}

#[tokio::test]
async fn an_ended_lease_is_lost_and_not_revived() {
    let directory = Directory::new();
    let backend = store_at(&directory.file("lease.db"), SqliteDialect::new(), 1_000_000).await;
    let asked = claim("a", 999_000);
    backend.claim(&asked).await.unwrap();
    let beat = Beat::new(asked.key(), asked.token, Duration::from_secs(15));
    assert_eq!(backend.heartbeat(&beat).await.unwrap().value, BeatOutcome::Alive);
    backend.set_clock(1_015_000).await;
    assert_eq!(backend.heartbeat(&beat).await.unwrap().value, BeatOutcome::Lost);
    let active = backend.active(&[]).await.unwrap().value;
    assert_eq!(active.len(), 1);
    assert_eq!(active[0].left, Duration::ZERO);
}

#[tokio::test]
async fn many_claims_are_answered_in_their_order() {
    let directory = Directory::new();
    let backend = store_at(&directory.file("many.db"), SqliteDialect::new(), 1_000_000).await;
    let mut claims: Vec<RunClaim> = (0..300).map(|n| claim(&format!("job-{n:03}"), 999_000)).collect();
    claims[7].slot = Slot::from_ms(2_000_000);
    claims.push(claims[3].clone());
    claims.push(claim("job-004", 998_000));
    let answers = backend.claim_many(&claims).await;
    assert_eq!(answers.len(), claims.len());
    for (n, answer) in answers.iter().enumerate() {
        let outcome = &answer.as_ref().unwrap().value;
        match n {
            7 => assert_eq!(*outcome, ClaimOutcome::Early { wait: Duration::from_secs(1_000) }),
            301 => assert!(matches!(outcome, ClaimOutcome::Overlap { recorded: true, .. }), "{outcome:?}"),
            _ => assert!(won(outcome), "{n}: {outcome:?}"),
        }
    }
    let history = backend.history(&job("job-004"), 10).await.unwrap();
    assert!(history.iter().any(|r| matches!(r, Record::Skipped(s) if s.reason == SkipReason::Overlap && s.count == 1)));
}

#[tokio::test]
async fn a_trim_works_in_small_steps_and_keeps_the_mark() {
    let directory = Directory::new();
    let backend = store_at(&directory.file("trim.db"), SqliteDialect::new(), 10_000_000).await;
    for slot in 0..1_500_i64 {
        let asked = RunClaim { overlap: Overlap::Allow, ..claim("a", slot) };
        backend.claim(&asked).await.unwrap();
        backend.finish(&Finish::new(asked.key(), asked.token, Ending::Done, instance("one"), 0)).await.unwrap();
    }
    backend.set_clock(20_000_000).await;
    let trim = [Trim::new(job("a"), Retention::new(10, None), Duration::ZERO)];
    backend.trim(&trim).await.unwrap();
    let left = backend.history(&job("a"), 10_000).await.unwrap().len();
    assert!((10..1_500).contains(&left) && left > 100, "{left}");
    backend.trim(&trim).await.unwrap();
    assert_eq!(backend.history(&job("a"), 10_000).await.unwrap().len(), 10);
    let forgotten = backend.claim(&claim("a", 1_489)).await.unwrap().value;
    assert_eq!(forgotten, ClaimOutcome::Late(crate::run::Lateness::Trimmed));
    let known = backend.claim(&claim("a", 1_490)).await.unwrap().value;
    assert!(matches!(known, ClaimOutcome::Done { .. }), "{known:?}");
}

#[tokio::test]
async fn a_forgotten_job_goes_with_all_that_is_left_of_it() {
    let directory = Directory::new();
    let backend = store_at(&directory.file("forget.db"), SqliteDialect::new(), 1_000_000).await;
    for name in ["open", "ended"] {
        let asked = claim(name, 999_000);
        backend.claim(&asked).await.unwrap();
        if name == "ended" {
            backend.finish(&Finish::new(asked.key(), asked.token, Ending::Done, instance("one"), 0)).await.unwrap();
        }
    }
    backend.set_clock(9_000_000).await;
    let registration = Registration::new(job("new"), "every 1s", "every 1s", instance("one"));
    backend.register(&[registration], Duration::from_secs(3_600)).await.unwrap();
    for (table, left) in [("anarchon_runs", 0), ("anarchon_runs_attempts", 0), ("anarchon_runs_jobs", 2)] {
        let count = Statement::new(format!("SELECT count(*) FROM {table}"), Vec::new());
        assert_eq!(backend.client().query(count).await.unwrap()[0].int(0).unwrap(), left, "{table}");
    }
}
