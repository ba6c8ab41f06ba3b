//! What every store on a server has to outlive: crashes, connections that are cut, errors in the middle of a batch.

use anarchon::backend::sql::{SqlClient, Statement};
use anarchon::run::{Beat, ClaimOutcome, Ending, RunClaim};
use anarchon::{BackendErrorKind, LeaseBackend, Overlap};

use crate::backends::{answer, claim, finish, won};
use crate::lab::LONG;
use crate::{Proxy, Server};

/// What was won is won, and answered to the same token, after a crash of the server.
///
/// # Panics
/// When it is not.
pub async fn is_won_after_a_crash(server: &mut impl Server, backend: &impl LeaseBackend) {
    let asked = claim("a", 1);
    let first = backend.claim(&asked).await.expect("an answer").value;
    server.kill();
    let error = backend.claim(&asked).await.expect_err("nobody is there");
    assert_eq!(error.kind(), BackendErrorKind::Unknown, "{error}");
    server.start();
    assert_eq!(answer(async || backend.claim(&asked).await).await.value, first);
    assert!(!won(&backend.claim(&claim("a", 1)).await.expect("an answer").value));
}

/// A connection that is cut, before or after the store has decided, is replaced, and the same token wins once.
///
/// # Panics
/// When it is not.
pub async fn wins_once_when_it_is_cut(proxy: &Proxy, backend: &impl LeaseBackend) {
    for (slot, cut) in [(1, Proxy::cut_before as fn(&Proxy, u64)), (2, Proxy::cut_after)] {
        let mut asked = claim("a", slot);
        asked.overlap = Overlap::Allow;
        cut(proxy, 1);
        let error = backend.claim(&asked).await.expect_err("it is cut");
        assert_eq!(error.kind(), BackendErrorKind::Unknown, "{error}");
        let again = backend.claim(&asked).await.expect("a new connection").value;
        assert!(matches!(again, ClaimOutcome::Won { attempt: 1, .. }), "{again:?}");
    }
    proxy.cut();
    let asked = claim("a", 9);
    let beat = Beat::new(asked.key(), asked.token, LONG);
    answer(async || backend.heartbeat(&beat).await).await;
}

/// An error in the middle of a batch takes back what came before it, on the connection that goes on.
///
/// # Panics
/// When it does not.
pub async fn takes_half_a_batch_back(client: &impl SqlClient) {
    let put = |key: &str| Statement::new("INSERT INTO anarchon_runs_meta (k, v) VALUES (?, 1)", vec![key.into()]);
    let bad = vec![put("half"), Statement::new("INSERT INTO no_such_table VALUES (1)", Vec::new())];
    assert_eq!(client.batch(bad).await.expect_err("no table").kind(), BackendErrorKind::Refused);
    client.batch(vec![put("whole")]).await.expect("a batch");
    let read = Statement::new("SELECT k FROM anarchon_runs_meta WHERE k <> 'format'", Vec::new());
    let kept = client.query(read).await.expect("rows");
    assert_eq!(kept.iter().map(|row| row.text(0).expect("a text")).collect::<Vec<_>>(), ["whole"]);
}

/// A claim, 64 claims, a heartbeat and a finish are one round trip each.
///
/// # Panics
/// When they are more.
pub async fn asks_once_for_each_verb(proxy: &Proxy, backend: &impl LeaseBackend) {
    backend.claim(&claim("first", 1)).await.expect("an answer");
    let asked = claim("a", 1);
    let many: Vec<RunClaim> = (0..64).map(|n| claim(&format!("job-{n}"), 1)).collect();
    let mut counted = vec![proxy.round_trips()];
    backend.claim(&asked).await.expect("an answer");
    counted.push(proxy.round_trips());
    assert!(backend.claim_many(&many).await.into_iter().all(|answer| won(&answer.expect("an answer").value)));
    counted.push(proxy.round_trips());
    backend.heartbeat(&Beat::new(asked.key(), asked.token, LONG)).await.expect("an answer");
    counted.push(proxy.round_trips());
    backend.finish(&finish(&asked, Ending::Done)).await.expect("an end");
    counted.push(proxy.round_trips());
    let trips: Vec<u64> = counted.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(trips, [1, 1, 1, 1], "a claim, 64 claims, a heartbeat, a finish");
}
