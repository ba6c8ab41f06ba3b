//! How much is gone through: a call reads what it is about, however many runs have ended.

use anarchon::run::{Beat, Ending, RunClaim};
use anarchon::{Backend as _, LeaseBackend as _, MySqlBackend, Token};
use sqlx::{Connection as _, Executor as _, MySqlConnection, Row as _};
use tests::LONG;
use tests::backends::{claim, finish, job, won};
use tests::servers::MariaDb;

/// How many jobs there are.
const JOBS: usize = 64;
/// How many of their slots are over.
const SLOTS: i64 = 20;

/// The rows that the server has read so far, other than by their key.
async fn rows_read(root: &mut MySqlConnection) -> u64 {
    let sql =
        "SHOW GLOBAL STATUS WHERE Variable_name IN ('Handler_read_next', 'Handler_read_prev', 'Handler_read_rnd_next')";
    let rows = root.fetch_all(sql).await.expect("a status");
    rows.iter().map(|row| row.get::<String, _>(1).parse::<u64>().expect("a number")).sum()
}

fn claims(slot: i64) -> Vec<RunClaim> {
    (0..JOBS).map(|n| claim(&format!("job-{n}"), slot)).collect()
}

#[tokio::test]
async fn no_call_goes_through_the_runs_that_have_ended() {
    let Some(server) = MariaDb::own() else { return };
    let database = server.database();
    let backend = MySqlBackend::new(database.url());
    backend.connect().await.expect("a store");
    for slot in 1..=SLOTS {
        let claims = claims(slot);
        for answer in backend.claim_many(&claims).await {
            assert!(won(&answer.expect("an answer").value));
        }
        let ends: Vec<_> = claims.iter().map(|claim| finish(claim, Ending::Done)).collect();
        for answer in backend.finish_many(&ends).await {
            answer.expect("an end");
        }
    }
    let mut root = MySqlConnection::connect(database.url()).await.expect("a connection");
    root.execute("ANALYZE TABLE anarchon_runs, anarchon_runs_attempts, anarchon_runs_jobs").await.expect("statistics");
    // What reading the status reads itself.
    let before = rows_read(&mut root).await;
    let own = rows_read(&mut root).await - before;
    let mut read = Vec::new();
    let mut before = before + own;
    let mut look = async |what: &'static str, about: usize| {
        let after = rows_read(&mut root).await;
        read.push((what, (after - before - own) / about as u64));
        before = after;
    };
    let asked = claims(SLOTS + 1);
    let mut lost = asked.clone();
    lost.iter_mut().for_each(|claim| claim.token = Token::random());
    for (what, claims) in [("64 claims", &asked), ("64 claims that are lost", &lost)] {
        for answer in backend.claim_many(claims).await {
            answer.expect("an answer");
        }
        look(what, JOBS).await;
    }
    let one = claim("job-1", SLOTS + 2);
    backend.claim(&one).await.expect("an answer");
    look("a claim that something is in the way of", 1).await;
    backend.heartbeat(&Beat::new(asked[1].key(), asked[1].token, LONG)).await.expect("an answer");
    look("a heartbeat", 1).await;
    backend.finish(&finish(&asked[1], Ending::Done)).await.expect("an end");
    look("a finish", 1).await;
    assert!(won(&backend.claim(&claim("job-1", SLOTS + 3)).await.expect("an answer").value));
    look("a claim that is won", 1).await;
    backend.active(&[job("job-2")]).await.expect("an answer");
    look("a look at what is unfinished", 1).await;
    let beats: Vec<_> = asked.iter().skip(2).map(|claim| Beat::new(claim.key(), claim.token, LONG)).collect();
    backend.heartbeat_many(&beats).await;
    look("62 heartbeats", JOBS).await;
    let ends: Vec<_> = asked.iter().skip(2).map(|claim| finish(claim, Ending::Done)).collect();
    backend.finish_many(&ends).await;
    look("62 ends", JOBS).await;
    println!("{read:?}");
    assert!(read.iter().all(|(_, rows)| *rows < 40), "rows read for each: {read:?}");
}
