//! Single claims that have waited for whoever was at their job: what they looked at before is old by then.

use anarchon::backend::PostgresDialect;
use anarchon::backend::sql::{SqlDialect as _, Tables, Verb};
use anarchon::run::{ClaimOutcome, RunClaim, Status};
use anarchon::{Backend as _, BackendErrorKind, LeaseBackend as _, PostgresBackend};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, raw_sql};

use crate::batches::{hold, wait_waiting};
use crate::place::{POOLED_1_24, Place, V15, V18};
use crate::{claim, done, rival, won};

/// What a claim is answered that comes while a transaction has the job's row, and has done this.
async fn after(
    place: Place,
    backend: &PostgresBackend,
    url: &str,
    held: &str,
    asked: &RunClaim,
    meanwhile: impl AsyncFnOnce(),
) -> ClaimOutcome {
    let mut user = PgConnection::connect(url).await.expect("a connection");
    let mut transaction = user.begin().await.expect("a transaction");
    transaction.execute(raw_sql(AssertSqlSafe(held.to_owned()))).await.expect("an answer");
    meanwhile().await;
    let commit = async {
        wait_waiting(&mut transaction, 1).await;
        transaction.commit().await.expect("a commit");
    };
    let (answer, ()) = tokio::join!(backend.claim(asked), commit);
    answer.unwrap_or_else(|error| panic!("{place:?}: {error}")).value
}

/// The statement of a claim.
fn statement(claim: &RunClaim) -> String {
    let dialect = PostgresDialect::new();
    let tables = Tables::new("public.anarchon_runs", &dialect).expect("a name");
    let one = [claim.clone()];
    let statements = dialect.replace(Verb::Claim(&one), &tables).expect("statements");
    statements[0].sql.clone().into_owned()
}

#[tokio::test]
async fn a_claim_that_has_waited_goes_by_what_the_one_before_it_left() {
    for place in [V15, V18, POOLED_1_24] {
        let Some(database) = place.database() else { return };
        let url = database.url();
        let backend = PostgresBackend::new(url);
        backend.connect().await.expect("a connection");
        let known = async |job: &str| {
            let first = claim(job, 1);
            assert!(won(&backend.claim(&first).await.expect("an answer").value));
            backend.finish(&done(&first)).await.expect("an answer");
        };
        let nothing = async || {};

        known("same").await;
        let asked = claim("same", 2);
        let outcome = after(place, &backend, url, &statement(&rival(&asked)), &asked, nothing).await;
        assert!(matches!(outcome, ClaimOutcome::Running { .. }), "{place:?}: {outcome:?}");

        known("other").await;
        let outcome = after(place, &backend, url, &statement(&claim("other", 2)), &claim("other", 3), nothing).await;
        assert!(matches!(outcome, ClaimOutcome::Overlap { recorded: true, .. }), "{place:?}: {outcome:?}");

        // What was in the way when the slot was skipped is gone when its second claim looks.
        known("skipped").await;
        let (live, asked) = (claim("skipped", 2), claim("skipped", 3));
        assert!(won(&backend.claim(&live).await.expect("an answer").value));
        let finish = async || {
            backend.finish(&done(&live)).await.expect("an answer");
        };
        let outcome = after(place, &backend, url, &statement(&rival(&asked)), &asked, finish).await;
        assert_eq!(outcome, ClaimOutcome::Done { status: Status::Skipped }, "{place:?}");

        known("paused").await;
        let pause = "UPDATE anarchon_runs_jobs SET paused_at = 1 WHERE job = 'paused' AND ident = ''";
        let outcome = after(place, &backend, url, pause, &claim("paused", 2), nothing).await;
        assert_eq!(outcome, ClaimOutcome::Paused { recorded: true }, "{place:?}");

        // One who did nothing leaves all as it was.
        known("idle").await;
        let lock = "SELECT 1 FROM anarchon_runs_jobs WHERE job = 'idle' AND ident = '' FOR UPDATE";
        let outcome = after(place, &backend, url, lock, &claim("idle", 2), nothing).await;
        assert!(won(&outcome), "{place:?}: {outcome:?}");
    }
}

/// Claims that wait go together; what one of them runs into must not be told to the others.
#[tokio::test]
async fn a_job_that_somebody_holds_fails_no_claims_of_others_that_went_with_its_own() {
    for place in [V15, POOLED_1_24] {
        let Some(database) = place.database() else { return };
        let backend = PostgresBackend::new(database.url());
        backend.connect().await.expect("a connection");
        let first = claim("held", 1);
        assert!(won(&backend.claim(&first).await.expect("an answer").value));
        backend.finish(&done(&first)).await.expect("an answer");
        let mut user = PgConnection::connect(database.url()).await.expect("a connection");
        let mut transaction = hold(&mut user, "held").await;
        // Two take all the calls there may be, and the others wait behind them.
        let held = [2, 3, 4].map(|slot| claim("held", slot));
        let others = ["z", "a", "m"].map(|job| claim(job, 1));
        let waiting = async {
            wait_waiting(&mut transaction, 2).await;
            let held = backend.claim(&held[2]);
            let others = futures_util::future::join_all(others.iter().map(|claim| backend.claim(claim)));
            tokio::join!(held, others)
        };
        let (one, two, (three, answers)) = tokio::join!(backend.claim(&held[0]), backend.claim(&held[1]), waiting);
        for answer in [one, two, three] {
            assert_eq!(answer.expect_err("it is held").kind(), BackendErrorKind::Busy, "{place:?}");
        }
        for answer in answers {
            let outcome = answer.unwrap_or_else(|error| panic!("{place:?}: {error}")).value;
            assert!(won(&outcome), "{place:?}: {outcome:?}");
        }
        transaction.rollback().await.expect("a rollback");
    }
}
