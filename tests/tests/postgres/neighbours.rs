//! Other clients of the same pooler, who prepare statements on the few connections that all of them share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anarchon::run::{Beat, BeatOutcome, ClaimOutcome};
use anarchon::{AttemptStatus, Backend as _, LeaseBackend as _, PostgresBackend, Record};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};
use tests::servers::PgBouncerVersion;

use crate::place::Place;
use crate::{claim, claims, done, rival};

const NEIGHBOURS: usize = 20;
const CLIENTS: usize = 4;
const ROUNDS: i64 = 30;

/// Prepares and runs statements that no one else has, until it is told to stop. What goes wrong for it is its own
/// trouble, and is counted: without any, this test would show nothing.
async fn neighbour(url: String, number: usize, stop: Arc<AtomicBool>, trouble: Arc<AtomicU64>) {
    while !stop.load(Ordering::Relaxed) {
        let Ok(mut connection) = PgConnection::connect(&url).await else { continue };
        for n in 0..50 {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let text = format!("SELECT $1::bigint + {n} AS sum, 'neighbour-{number}'::text AS who");
            let query = sqlx::query(AssertSqlSafe(text)).bind(1_i64).persistent(n % 2 == 0);
            match query.fetch_all(&mut connection).await {
                Ok(rows) => {
                    let right = rows.len() == 1
                        && rows[0].try_get::<i64, _>(0).is_ok_and(|sum| sum == 1 + n)
                        && rows[0].try_get::<String, _>(1).is_ok_and(|who| who == format!("neighbour-{number}"));
                    if !right {
                        trouble.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Err(_) => {
                    trouble.fetch_add(1, Ordering::Relaxed);
                    break;
                }
            }
        }
    }
}

/// One client of ours. Everything it asks is about jobs of its own, so an answer that is not about them, or that says
/// anything but what must be, is another's.
async fn our_client(url: String, number: usize) {
    let backend = PostgresBackend::new(url);
    backend.connect().await.expect("a connection");
    let prefix = format!("client-{number}");
    for round in 1..=ROUNDS {
        let mut one = claim(&prefix, round * 1000);
        one.overlap = anarchon::Overlap::Allow;
        let won = backend.claim(&one).await.expect("an answer").value;
        assert!(matches!(won, ClaimOutcome::Won { attempt: 1, .. }), "{won:?}");
        let lost = backend.claim(&rival(&one)).await.expect("an answer").value;
        assert!(matches!(lost, ClaimOutcome::Running { .. }), "{lost:?}");
        let many = claims(&format!("{prefix}-of-many"), 16, round * 1000);
        for answer in backend.claim_many(&many).await {
            let won = answer.expect("an answer").value;
            assert!(matches!(won, ClaimOutcome::Won { attempt: 1, .. }), "{won:?}");
        }
        let beat = Beat::new(one.key(), one.token, Duration::from_secs(15));
        assert_eq!(backend.heartbeat(&beat).await.expect("an answer").value, BeatOutcome::Alive);
        backend.finish(&done(&one)).await.expect("an answer");
        for answer in backend.finish_many(&many.iter().map(done).collect::<Vec<_>>()).await {
            answer.expect("an answer");
        }
        let history = backend.history(&one.job, 1).await.expect("a history");
        let [Record::Attempt(attempt)] = &history[..] else { panic!("{history:?}") };
        assert_eq!((attempt.token, attempt.status), (one.token, Some(AttemptStatus::Done)));
    }
}

async fn neighbours_disturb_nobody(version: PgBouncerVersion) {
    let Some(database) = Place::Pooled(version).database() else { return };
    PostgresBackend::new(database.url()).connect().await.expect("a connection");
    let (stop, trouble) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let neighbours: Vec<_> = (0..NEIGHBOURS)
        .map(|n| tokio::spawn(neighbour(database.url().to_owned(), n, Arc::clone(&stop), Arc::clone(&trouble))))
        .collect();
    let ours: Vec<_> = (0..CLIENTS).map(|n| tokio::spawn(our_client(database.url().to_owned(), n))).collect();
    let mut failed = None;
    for client in ours {
        failed = client.await.err().or(failed);
    }
    stop.store(true, Ordering::Relaxed);
    for neighbour in neighbours {
        neighbour.await.expect("no panic");
    }
    let trouble = trouble.load(Ordering::Relaxed);
    println!("the neighbours had trouble {trouble} times");
    if let Some(failed) = failed {
        std::panic::resume_unwind(failed.into_panic());
    }
    assert!(trouble > 0, "nobody's statements got mixed up, so this shows nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neighbours_who_prepare_disturb_nobody_behind_an_old_pooler() {
    neighbours_disturb_nobody(PgBouncerVersion::V1_18).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neighbours_who_prepare_disturb_nobody_behind_a_pooler() {
    neighbours_disturb_nobody(PgBouncerVersion::V1_24).await;
}
